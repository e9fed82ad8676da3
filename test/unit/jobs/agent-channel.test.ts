import { describe, expect, it } from 'vitest';
import { transportsOf } from '../../../src/jobs/agent-channel.ts';

describe('the ways to an agent', () => {
  it.each([
    ['auto', undefined, undefined, ['port_forward', 'exec']],
    ['auto', undefined, 'exec', ['exec', 'port_forward']],
    ['auto', undefined, 'port_forward', ['port_forward', 'exec']],
    ['auto', 'port_forward', 'exec', ['port_forward', 'exec']],
    ['auto', 'exec', undefined, ['exec', 'port_forward']],
    ['port_forward', 'exec', 'exec', ['port_forward']],
    ['exec', undefined, undefined, ['exec']],
    ['pod_ip', undefined, 'exec', ['pod_ip']],
  ] as const)('handshake %s, recorded %s, remembered %s: %j', (handshake, recorded, remembered, ways) => {
    expect(transportsOf({ handshake, agent: { protocol: 'windlass' } }, recorded, remembered)).toEqual(ways);
  });

  it('never lead an agentctl through an exec, whatever worked for other Pods of the runtime class', () => {
    expect(transportsOf({ handshake: 'auto', agent: { protocol: 'agentctl' } }, undefined, 'exec')).toEqual(['port_forward']);
  });
});
