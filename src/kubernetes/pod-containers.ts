import type { CoreV1Event, V1ContainerStateTerminated } from '@kubernetes/client-node';
import { codeForKubernetesText, type ErrorCode } from '../error-codes.ts';
import { type ContainerView, eventsOfContainer, firstSeen, lastText } from './pod-view.ts';
import { sanitize } from './sanitize.ts';

/** A problem of one container. It is final at `since + graceMs`: until then the cluster may still repair it. */
export interface ContainerProblem {
  readonly code: ErrorCode;
  readonly message: string;
  readonly graceMs: number;
  /** Server ms; undefined = not known, count from the start of the phase. */
  readonly since: number | undefined;
  readonly evidence: Readonly<Record<string, unknown>>;
}

interface Row {
  readonly graceMs: number;
  /** undefined = by the text of a pull error, or by how the container last ended. */
  readonly code: ErrorCode | 'pull' | 'end' | 'create';
}

const pullGraceMs = 30_000;
const configGraceMs = 10_000;
const createGraceMs = 10_000;

/** Waiting reasons of the kubelet that mean trouble. Others (ContainerCreating, PodInitializing) are normal. */
const rows: Readonly<Record<string, Row>> = {
  InvalidImageName: { code: 'image_invalid', graceMs: 0 },
  ErrImageNeverPull: { code: 'image_pull_failed', graceMs: 0 },
  ErrImagePull: { code: 'pull', graceMs: pullGraceMs },
  ImagePullBackOff: { code: 'pull', graceMs: pullGraceMs },
  RegistryUnavailable: { code: 'pull', graceMs: pullGraceMs },
  ImageInspectError: { code: 'pull', graceMs: pullGraceMs },
  SignatureValidationFailed: { code: 'image_pull_failed', graceMs: pullGraceMs },
  // A Secret or ConfigMap may be made a moment after the Pod.
  CreateContainerConfigError: { code: 'config_missing', graceMs: configGraceMs },
  CreateContainerError: { code: 'create', graceMs: createGraceMs },
  RunContainerError: { code: 'create', graceMs: createGraceMs },
  PreCreateHookError: { code: 'create', graceMs: createGraceMs },
  PreStartHookError: { code: 'create', graceMs: createGraceMs },
  PostStartHookError: { code: 'create', graceMs: createGraceMs },
  CrashLoopBackOff: { code: 'end', graceMs: 0 },
};

/** The problem that a container's waiting reason tells of; undefined when it is normal. */
export function waitingProblem(container: ContainerView, all: readonly CoreV1Event[]): ContainerProblem | undefined {
  const waiting = container.status?.state?.waiting;
  const row = rows[waiting?.reason ?? ''];
  if (!waiting || !row) return undefined;
  const events = eventsOfContainer(all, container);
  const failed = (event: CoreV1Event): boolean => event.reason === 'Failed' || event.reason === 'InspectFailed';
  const text = [waiting.message ?? '', lastText(events, failed)].filter((part) => part !== '').join('; ');
  const evidence = { container: container.name, kind: container.kind, reason: waiting.reason ?? '' };
  if (row.code === 'end') return endProblem(container) ?? crash(container, evidence);
  const code = row.code === 'pull' ? pullCode(text) : row.code === 'create' ? createCode(text) : row.code;
  // An image that cannot even be parsed stays so.
  const graceMs = code === 'image_invalid' ? 0 : row.graceMs;
  const message = `Container ${container.name}: ${waiting.reason}: ${sanitize(text, 1000) || 'no message'}`;
  return { code, message, graceMs, since: firstSeen(events, failed), evidence };
}

function pullCode(text: string): ErrorCode {
  const code = codeForKubernetesText(text);
  return code === 'image_pull_throttled' || code === 'image_invalid' ? code : 'image_pull_failed';
}

function createCode(text: string): ErrorCode {
  return lacksProgram(text) ? 'agent_runtime_missing' : 'crash_loop';
}

/** The runtime's words when the image does not have the program that was to be started. */
function lacksProgram(text: string): boolean {
  return /executable file not found|exec: "[^"]*": (?:stat )?[^:]*:? ?no such file/i.test(text);
}

function crash(container: ContainerView, evidence: Record<string, unknown>): ContainerProblem {
  const end = lastEnd(container);
  const exitCode = end?.exitCode ?? -1;
  const code = exitCode === 0 ? 'exit_early' : 'crash_loop';
  const words = sanitize(end?.message ?? '', 1000);
  const message = `Container ${container.name} ended with exit code ${exitCode} ${container.status?.restartCount ?? 0} time(s)${words ? `: ${words}` : '.'}`;
  return { code, message, graceMs: 0, since: undefined, evidence: { ...evidence, exitCode } };
}

function lastEnd({ status }: ContainerView): V1ContainerStateTerminated | undefined {
  return status?.state?.terminated ?? status?.lastState?.terminated;
}

/** Lines that our own entry point writes last, before it exits (its exit code is the script's). */
const prepareFailed = /windlass: prepare failed with exit code (\d+)/;
const toolMissing = /windlass: \S+ not found/;

/** An end that says by itself why, so that no restart has to be waited for; undefined for any other end, or none. */
export function endProblem(container: ContainerView): ContainerProblem | undefined {
  const end = lastEnd(container);
  if (!end) return undefined;
  const words = sanitize(end.message ?? '', 2000);
  const evidence = { container: container.name, kind: container.kind, reason: end.reason ?? '', exitCode: end.exitCode };
  const problem = (code: ErrorCode, message: string, more: object = {}): ContainerProblem => ({
    code,
    message,
    graceMs: 0,
    since: undefined,
    evidence: { ...evidence, ...more, ...(words ? { log: words } : {}) },
  });
  if (end.reason === 'OOMKilled') {
    const limit = container.spec?.resources?.limits?.memory;
    const text = limit ? `its limit of ${limit}` : 'what the node has';
    return problem('oom_killed', `Container ${container.name} needed more memory than ${text}.`, { memoryLimit: limit ?? '' });
  }
  const prepare = prepareFailed.exec(end.message ?? '');
  if (prepare)
    return problem('prepare_failed', `The prepare step failed with exit code ${prepare[1]}.`, { exitCode: Number(prepare[1]) });
  const lacking = end.exitCode === 127 && toolMissing.test(end.message ?? '');
  if (lacking || (end.reason === 'StartError' && lacksProgram(end.message ?? '')))
    return problem('agent_runtime_missing', `Container ${container.name} cannot start the agent: ${words || 'exit code 127'}`);
  return undefined;
}
