export { type ErrorBody, type ErrorCode, type Issue, WindlassError } from './errors.ts';
export { launchSchema, sweepSchema, teardownSchema } from './jobs/catalog.ts';
export { queueNames, queuePrefix } from './producers/queue.ts';
