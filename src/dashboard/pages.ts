import { codeTable, type ErrorCode } from '../error-codes.ts';
import type { InstanceEvent, InstanceRecord, StageRecord, State } from '../inventory/types.ts';
import { Html, html } from './html.ts';
import { ageWords, durationWords, eventWords } from './words.ts';

/** Links carry ids with any characters: a slash or a percent sign must stay inside its segment. */
const instancePath = (base: string, id: string): string => `${base}/instances/${encodeURIComponent(id)}`;

const stateTag = (state: string): Html => html`<span class="state state-${state}">${state.replaceAll('_', ' ')}</span>`;
const time = (ms: number): Html => html`<time>${new Date(ms).toISOString().replace('T', ' ').slice(0, 19)}</time>`;

export interface ListView {
  readonly base: string;
  readonly items: readonly InstanceRecord[];
  readonly now: number;
  readonly nextCursor: string | null;
  readonly state: State | undefined;
  readonly states: readonly State[];
  readonly owner: string | undefined;
  readonly owners: readonly string[];
}

export function listPage(view: ListView): Html {
  const { base, items, now, nextCursor } = view;
  return html`<h1>Instances</h1>
${filters(view)}
<div class="card">${
    items.length === 0
      ? html`<p class="empty">There is nothing here. <code>windlass launch</code> makes an instance.</p>`
      : html`<table><thead><tr><th>Instance</th><th>Owner</th><th>State</th><th>Recipe</th><th>Cluster</th><th>Age</th><th>Now</th></tr></thead>
<tbody>${items.map(
          (
            item,
          ) => html`<tr><td><a href="${instancePath(base, item.instanceId)}">${item.instanceId}</a></td><td>${item.owner}</td><td>${stateTag(item.state)}</td>
<td>${item.profile || item.app}</td><td>${item.cluster}</td><td>${ageWords(now - item.createdAt)}</td><td>${whatNow(item)}</td></tr>`,
        )}</tbody></table>`
  }</div>
${nextCursor === null ? '' : html`<p><a href="${base}/${query({ state: view.state, owner: view.owner, cursor: nextCursor })}">More</a></p>`}`;
}

function query(values: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
}

function filters({ base, state, states, owner, owners }: ListView): Html {
  const link = (label: string, here: boolean, values: Readonly<Record<string, string | undefined>>) =>
    html`<a href="${base}/${query(values)}"${here ? new Html(' aria-current="true"') : ''}>${label}</a>`;
  return html`<div class="filters">${link('all', state === undefined, { owner })}${states.map((name) => link(name.replaceAll('_', ' '), name === state, { state: name, owner }))}</div>
${owners.length < 2 ? '' : html`<div class="filters">${owners.map((name) => link(name, name === owner, { state, owner: name }))}</div>`}`;
}

/** The one thing worth knowing of a record in a list. */
function whatNow(record: InstanceRecord): string {
  if (record.failure !== null && record.state !== 'ready') return record.failure.message;
  const stage = record.stages.find((one) => one.state === 'running' || one.state === 'waiting');
  if (!stage || record.state !== 'launching') return '';
  return stage.wait ? `${stage.name}: waits for ${stage.wait}` : stage.name;
}

export interface InstanceView {
  readonly record: InstanceRecord;
  readonly events: readonly InstanceEvent[];
  readonly now: number;
  /** A viewer sees no evidence, node or address (contract §5). */
  readonly everything: boolean;
}

export function instancePage({ record, events, now, everything }: InstanceView): Html {
  return html`<h1>${record.instanceId} ${stateTag(record.state)}</h1>
${record.failure === null || record.state === 'ready' ? '' : failureCard(record, everything)}
<h2>Facts</h2>
<div class="card"><table>${facts(record, now, everything).map(([name, value]) => html`<tr><th>${name}</th><td>${value}</td></tr>`)}</table></div>
<h2>Stages</h2>
<div class="card">${record.stages.length === 0 ? html`<p class="empty">No worker has begun yet.</p>` : html`<table><thead><tr><th>Stage</th><th>State</th><th>Took</th><th>Reached</th><th>Waits for</th></tr></thead><tbody>${record.stages.map((stage) => stageRow(stage, now))}</tbody></table>`}</div>
<h2>Events</h2>
<div class="card"><table><thead><tr><th>#</th><th>Time (UTC)</th><th>What</th></tr></thead><tbody>${[...events].reverse().map((event) => html`<tr><td class="soft">${event.seq}</td><td>${time(Date.parse(event.at))}</td><td>${eventWords(event)}</td></tr>`)}</tbody></table></div>`;
}

function facts(record: InstanceRecord, now: number, everything: boolean): [string, Html | string][] {
  const all: [string, Html | string][] = [
    ['Owner', record.owner],
    ['Wanted', `${record.intent} (generation ${record.generation}, run ${record.run})`],
    [record.app ? 'App' : 'Profile', record.app || record.profile],
    ['Cluster', record.namespace === '' ? record.cluster : `${record.cluster}, namespace ${record.namespace}`],
    ['Pod', record.pod?.name ?? ''],
    ['Node', everything ? (record.pod?.node ?? '') : ''],
    ['Address', everything ? (record.pod?.ip ?? '') : ''],
    ['Workspace', record.workspace ? `${record.workspace.mode} ${record.workspace.claimName}`.trim() : ''],
    ['Agent', record.agent ? `${record.agent.state}, by ${record.agent.transport.replaceAll('_', ' ')}` : ''],
    ['Restarts', record.restartCount > 0 ? String(record.restartCount) : ''],
    ['Exit code', record.exitCode === null ? '' : String(record.exitCode)],
    ['Created', html`${time(record.createdAt)} <span class="soft">${ageWords(now - record.createdAt)} ago</span>`],
    [
      'Ready',
      record.readyAt > 0
        ? html`${time(record.readyAt)} <span class="soft">after ${durationWords(record.readyAt - record.createdAt)}</span>`
        : '',
    ],
    ['Expires', record.expiresAt > 0 ? time(record.expiresAt) : ''],
  ];
  return all.filter(([, value]) => value !== '');
}

function stageRow(stage: StageRecord, now: number): Html {
  const running = stage.state === 'running' || stage.state === 'waiting';
  const ms = stage.durationMs ?? (running && stage.startedAt ? now - stage.startedAt : undefined);
  return html`<tr><td>${stage.name}</td><td>${stateTag(stage.state)}</td><td>${ms === undefined ? '' : durationWords(ms)}</td><td>${stage.checkpoint?.replaceAll('_', ' ') ?? ''}</td><td>${stage.wait ?? ''}</td></tr>`;
}

function failureCard(record: InstanceRecord, everything: boolean): Html {
  const failure = record.failure!;
  const row = codeTable[failure.code as ErrorCode] as (typeof codeTable)[ErrorCode] | undefined;
  const next = failure.attemptsLeft > 0 ? `It is tried again (${failure.attemptsLeft} left).` : 'It is not tried again.';
  return html`<div class="card failure"><p><strong>${row?.sentence ?? failure.message}</strong></p>
${row?.sentence === failure.message ? '' : html`<p>${failure.message}</p>`}
<p class="soft">${failure.hint} ${next}</p>
<p class="soft">Code <code>${failure.code}</code>${failure.stage ? html`, in stage ${failure.stage}` : ''}</p>
${(failure.rollback ?? []).map((problem) => html`<p class="soft">While cleaning up: ${problem.message}</p>`)}</div>
${everything && Object.keys(failure.evidence).length > 0 ? html`<h2>Evidence</h2><div class="card"><pre>${JSON.stringify(failure.evidence, null, 2)}</pre></div>` : ''}`;
}

export function messagePage(title: string, text: string, hint = ''): Html {
  return html`<h1>${title}</h1><p>${text}</p><p class="soft">${hint}</p>`;
}

export function signInPage(base: string, failed: boolean): Html {
  return html`<h1>Sign in</h1>
<p>${failed ? 'This token is not valid.' : 'Paste your access token.'} <span class="soft">windlass token create makes one.</span></p>
<form method="post" action="${base}/login"><input type="password" name="token" autocomplete="current-password" aria-label="Token" required autofocus><button>Sign in</button></form>`;
}
