CREATE TABLE bpmn_definitions (
    hash text PRIMARY KEY,
    process text NOT NULL,
    files text NOT NULL,
    deployed_at bigint NOT NULL
);
CREATE INDEX bpmn_definitions_process ON bpmn_definitions (process, deployed_at);

CREATE TABLE bpmn_instances (
    id text COLLATE "C" PRIMARY KEY,
    process text NOT NULL,
    definition text NOT NULL,
    revision bigint NOT NULL,
    handed bigint NOT NULL,
    status text NOT NULL,
    timers text NOT NULL,
    data text NOT NULL,
    body text NOT NULL,
    incident text,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    finished_at bigint
);
CREATE INDEX bpmn_instances_unhanded ON bpmn_instances (id) WHERE handed < revision;
CREATE INDEX bpmn_instances_running ON bpmn_instances (id) WHERE finished_at IS NULL;
CREATE INDEX bpmn_instances_finished ON bpmn_instances (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE bpmn_items (
    id text PRIMARY KEY,
    node text NOT NULL,
    state text NOT NULL,
    process text NOT NULL,
    instance text NOT NULL,
    assignee text,
    created_at bigint NOT NULL,
    ended_at bigint,
    ended_by text,
    reason text
);
CREATE INDEX bpmn_items_instance ON bpmn_items (instance, created_at);
CREATE INDEX bpmn_items_node ON bpmn_items (node, state, created_at);
CREATE INDEX bpmn_items_state ON bpmn_items (state, created_at);

CREATE TABLE bpmn_notices (
    key text PRIMARY KEY,
    item text NOT NULL,
    kind text NOT NULL,
    target text,
    reason text NOT NULL,
    told_at bigint NOT NULL
);
CREATE INDEX bpmn_notices_item ON bpmn_notices (item, told_at);
