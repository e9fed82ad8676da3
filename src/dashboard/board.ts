import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import type { FastifyInstance } from 'fastify';

type Queue = ConstructorParameters<typeof BullMQAdapter>[0];

/** What a job's data may show; a raw job of another service can hold env, scripts and repository addresses (I17). */
const shownFields = new Set([
  'version',
  'instanceId',
  'owner',
  'generation',
  'run',
  'cluster',
  'profile',
  'app',
  'kinds',
  'dryRun',
  'ackMassDelete',
  'keepWorkspace',
  'force',
  'priority',
  'state',
]);
/** A job of megabytes must not stall the list (C80). */
const maxShown = 2048;

/**
 * What an operator may do there. Left out: adding and editing jobs (they would pass no validation), emptying and
 * obliterating (intents would stay without their jobs) and schedulers (workers set them again).
 */
const allowedWrites = /\/api\/queues(?:\/[^/]+){0,2}\/(?:pause|resume|retry|promote|clean|priority|retry\/[^/]+|clean\/[^/]+)$/;
export const boardWriteAllowed = (path: string): boolean => allowedWrites.test(path);

/** Mounts Bull Board below `path` (with the base path in front, as the browser sees it). */
export function mountBoard(
  app: FastifyInstance,
  queues: readonly Queue[],
  path: string,
  readOnly: (headers: Record<string, unknown>) => boolean,
): void {
  const adapters = queues.map((queue) => {
    const adapter = new BullMQAdapter(queue);
    adapter.setFormatter('data', redactData);
    adapter.setFormatter('returnValue', redactData);
    adapter.setFormatter('progress', (value) => short(value));
    return adapter;
  });
  const server = new FastifyAdapter();
  createBullBoard({
    queues: adapters,
    serverAdapter: server,
    options: {
      uiConfig: {
        boardTitle: 'Windlass queues',
        hideRedisDetails: true,
        showWorkers: false,
        miscLinks: [{ text: 'Instances', url: path.replace(/\/queues$/, '/') }],
      },
      handlerHooks: {
        after: async (context, result) => {
          const body = reshape(result.body, readOnly(context.request.headers ?? {})) as typeof result.body;
          if (result.status !== 409) return { ...result, body };
          return {
            ...result,
            body: { ...(body as object), ...(await insteadOfRemoval(queues, path, context.request.params)) } as typeof body,
          };
        },
      },
    },
  });
  server.setBasePath(path);
  void app.register(server.registerPlugin(), { prefix: path });
  app.addHook('onSend', async (_request, _reply, payload) =>
    typeof payload === 'string' && payload.includes('fonts.googleapis.com')
      ? payload.replace(/<link[^>]*fonts\.googleapis\.com[^>]*>/g, '')
      : payload,
  );
}

/** A job that a worker has is not removed from under it: what ends its instance is a teardown, asked for where it is shown (C17). */
async function insteadOfRemoval(queues: readonly Queue[], path: string, params: Record<string, unknown>): Promise<object> {
  const job = await queues.find(({ name }) => name === params.queueName)?.getJob(String(params.jobId));
  const id = (job?.data as { instanceId?: unknown } | undefined)?.instanceId;
  if (typeof id !== 'string') return {};
  return {
    hint: '`windlass teardown` ends the instance and, with it, this job.',
    instance: `${path.replace(/\/queues$/, '')}/instances/${encodeURIComponent(id)}`,
  };
}

function redactData(data: unknown): unknown {
  if (data === null || typeof data !== 'object' || Array.isArray(data)) return short(data);
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, shownFields.has(key) ? short(value) : '[redacted]']),
  );
}

function short(value: unknown): unknown {
  const text = JSON.stringify(value) ?? '';
  return text.length <= maxShown ? value : { truncated: true, bytes: text.length, start: text.slice(0, 200) };
}

/** Formatters do not reach reasons, traces and options, nor the buttons of a board that is shown to somebody who may only read. */
function reshape(value: unknown, readOnly: boolean): unknown {
  if (Array.isArray(value)) return value.map((item) => reshape(item, readOnly));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      if (key === 'stacktrace') return [key, []];
      if (key === 'failedReason' && typeof inner === 'string') return [key, inner.slice(0, 500)];
      if (key === 'template' || (key === 'data' && inner !== null && typeof inner === 'object')) return [key, redactData(inner)];
      if (readOnly && key === 'readOnlyMode') return [key, true];
      if (readOnly && /^allow(Completed)?Retries$/.test(key)) return [key, false];
      return [key, reshape(inner, readOnly)];
    }),
  );
}
