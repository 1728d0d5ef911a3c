// Who reads: the role the server gave, and what it allows.

import { get } from "./api.js";

const RANKS = { read: 0, write: 1, admin: 2 };
let me = { role: null, auth: false };

export async function learnReader() {
  me = await get("v1/me");
  return me;
}

// Whether the server asks for a token and has none from us.
export function isStranger() {
  return me.auth && me.role === null;
}

export function hasSession() {
  return me.auth && me.role !== null;
}

export function mayWrite() {
  return !me.auth || RANKS[me.role] >= RANKS.write;
}
