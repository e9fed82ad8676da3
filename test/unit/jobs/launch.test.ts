import { expect, it } from 'vitest';
import { launchSchema } from '../../../src/jobs/catalog.ts';
import { launch } from '../../../src/jobs/launch.ts';

it.each(['rolling_back', 'launching'])(
  'a launch that an earlier version accepted and that is %s goes on, though it would be refused today',
  async (state) => {
    const payload = { version: 1, instanceId: 'a', profile: 'node', resources: { requests: { cpu: '2' }, limits: { cpu: '1' } } };
    expect(launchSchema.safeParse(payload).success).toBe(false);
    const creates = { pods: { generation: 100, sentAt: 1 } };
    const record = {
      state,
      generation: 100,
      run: 1,
      snapshot: 's',
      before: 'requested',
      creates,
      pod: null,
      workspace: null,
      request: { payload },
    };
    const begun: unknown[] = [];
    const context = {
      job: { queue: 'launch', jobId: 'j' },
      config: { limits: {} },
      pressed: () => false,
      inventory: {
        read: async () => record,
        begin: async (_id: string, options: unknown) => {
          begun.push(options);
          return { kind: 'superseded' };
        },
      },
    };
    await launch(context as never, { version: 1, instanceId: 'a', generation: 100, run: 1 });
    expect(begun).toMatchObject([{ verb: 'launch', generation: 100, run: 1, set: {} }]);
  },
);
