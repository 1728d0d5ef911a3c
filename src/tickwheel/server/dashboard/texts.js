// What the dashboard says, in the reader's language. All words are in texts/, one module a language.

import { keep, recall } from "./kept.js";

export const LANGUAGES = { en: "English", zh: "中文" };

let language = "en";
let words = {};

// The text of a name; a text that depends on something is a function of it.
export function t(name, values) {
  const text = words[name];
  if (text === undefined) throw new Error(`no text ${name} in ${language}`);
  return typeof text === "function" ? text(values) : text;
}

// The text of a name that comes from the server, or the name itself if there is none.
export function word(group, name) {
  return words[`${group}.${name}`] ?? name;
}

export function locale() {
  return language === "zh" ? "zh-CN" : "en-GB";
}

export function currentLanguage() {
  return language;
}

// Take the language that was kept, or else the browser's if it is one of ours.
export async function beginLanguage() {
  const wanted = recall("language") ?? navigator.languages.find((name) => name.split("-")[0] in LANGUAGES) ?? "en";
  await load(wanted.split("-")[0] in LANGUAGES ? wanted.split("-")[0] : "en");
}

export async function setLanguage(name) {
  await load(name);
  keep("language", name);
}

async function load(name) {
  words = (await import(`./texts/${name}.js`)).default;
  language = name;
  document.documentElement.lang = locale();
}
