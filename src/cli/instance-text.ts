import { durationWords } from '../dashboard/words.ts';
import type { InstanceRecord, StageRecord } from '../inventory/types.ts';
import { clean, paint } from './output.ts';

const when = (ms: number): string => (ms > 0 ? new Date(ms).toISOString() : '');

/** A record for a person: only what has a value. */
export function instanceText(record: InstanceRecord): string {
  const lines: [string, string][] = [
    ['Instance', record.instanceId],
    ['Owner', record.owner],
    ['State', `${record.state} (wanted: ${record.intent}, generation ${record.generation}, run ${record.run})`],
    ['Recipe', record.app ? `app ${record.app}` : `profile ${record.profile}`],
    ['Cluster', `${record.cluster}, namespace ${record.namespace}`],
    ['Pod', record.pod ? `${record.pod.name} (uid ${record.pod.uid}) on ${record.pod.node || 'no node yet'}` : ''],
    ['Workspace', record.workspace ? `${record.workspace.mode} ${record.workspace.claimName}`.trim() : ''],
    ['Agent', record.agent ? `${record.agent.state} by ${record.agent.transport}` : ''],
    ['Restarts', record.restartCount > 0 ? String(record.restartCount) : ''],
    ['Exit code', record.exitCode === null ? '' : String(record.exitCode)],
    ['Created', when(record.createdAt)],
    ['Ready', when(record.readyAt)],
    ['Expires', when(record.expiresAt)],
  ];
  const facts = lines.filter(([, value]) => value !== '').map(([name, value]) => `${`${name}:`.padEnd(12)}${clean(value)}`);
  return [...facts, ...stageLines(record.stages), ...failureLines(record)].join('\n');
}

export function stageLines(stages: readonly StageRecord[]): string[] {
  if (stages.length === 0) return [];
  return ['Stages:', ...stages.map((stage) => `  ${stage.name.padEnd(12)}${clean(stageWords(stage))}`)];
}

function stageWords(stage: StageRecord): string {
  const duration = stage.durationMs === undefined ? '' : ` in ${durationWords(stage.durationMs)}`;
  const reached = stage.checkpoint && stage.state !== 'done' ? `, reached ${stage.checkpoint}` : '';
  return `${stage.state}${duration}${reached}${stage.wait ? `, waits for ${stage.wait}` : ''}`;
}

function failureLines(record: InstanceRecord): string[] {
  const failure = record.failure;
  if (!failure) return [];
  return [
    `${paint('red', 'Failure:', process.stdout)}    ${failure.code} in stage ${failure.stage || '(before the first)'}`,
    `  ${clean(failure.message)}`,
    ...(failure.hint ? [`  Hint: ${clean(failure.hint)}`] : []),
    ...(failure.rollback ?? []).map((problem) => `  Rollback: ${problem.code}: ${clean(problem.message)}`),
  ];
}
