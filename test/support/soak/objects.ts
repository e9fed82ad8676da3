import { sleep } from '../../../src/clock.ts';
import { connectHttp } from '../kube-http.ts';
import type { SecretSearch } from './secrets.ts';

const kinds = ['pods', 'persistentvolumeclaims', 'configmaps', 'events', 'secrets'];

/** Looks through what the API server shows of every object, and through Pods' logs, every few seconds until it is stopped. */
export async function watchObjects(kubeconfig: string, namespace: string, search: SecretSearch) {
  const http = await connectHttp(kubeconfig);
  const path = `/api/v1/namespaces/${namespace}`;
  const stopping = new AbortController();
  let looked = 0;
  const look = async () => {
    for (const kind of kinds) {
      const { body } = await http.call('GET', `${path}/${kind}`);
      for (const object of body.items ?? []) search.look(`${kind}/${object.metadata.name}`, JSON.stringify(object));
      if (kind !== 'pods') continue;
      for (const { metadata } of body.items ?? []) {
        const log = await http.call('GET', `${path}/pods/${metadata.name}/log`);
        search.look(`log of ${metadata.name}`, JSON.stringify(log.body));
        looked += 1;
      }
    }
  };
  const running = (async () => {
    while (!stopping.signal.aborted) {
      // Faults are for us, too; the next look is soon.
      await look().catch(() => undefined);
      await sleep(2000, stopping.signal).catch(() => undefined);
    }
  })();
  return {
    /** Stops, and resolves with how many Pods it has looked at; zero would prove nothing. */
    async stop(): Promise<number> {
      stopping.abort();
      await running;
      await http.agent.destroy();
      return looked;
    },
  };
}
