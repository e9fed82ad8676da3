import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import type { NodeOptions } from '../../../src/local-cluster/cluster.ts';
import type { KubeObject, NodeRuntime, RunningProcess } from '../../../src/local-cluster/types.ts';

function run(command: readonly string[]): RunningProcess {
  const child = spawn(command[0] ?? '', command.slice(1), { stdio: 'pipe' });
  return {
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    exit: once(child, 'close').then(([code]) => ({ exitCode: Number(code) })),
    resize: () => undefined,
    kill: () => void child.kill(),
  };
}

/** Stands in for the kubelet where a test is about the API alone: Pods run at once, exec runs on the host. */
export async function nodeDouble({ store }: NodeOptions): Promise<NodeRuntime> {
  const start = ({ metadata, spec }: KubeObject): void => {
    if (spec.nodeSelector) return;
    store.update('pods', metadata.namespace, metadata.name, (pod) => {
      pod.spec.nodeName = 'local';
      const container = (one: { name: string; image: string }) => ({
        ...one,
        ready: true,
        started: true,
        restartCount: 0,
        state: { running: { startedAt: pod.metadata.creationTimestamp } },
      });
      const conditions = [{ type: 'Ready', status: 'True' }];
      const containerStatuses = pod.spec.containers.map(({ name, image }: { name: string; image: string }) =>
        container({ name, image }),
      );
      pod.status = { ...pod.status, phase: 'Running', podIP: '127.0.0.2', conditions, containerStatuses };
    });
  };
  const end = ({ metadata }: KubeObject): void => {
    const { namespace, name, uid } = metadata;
    setImmediate(() => {
      const pod = store.update(
        'pods',
        namespace,
        name,
        (draft) => {
          draft.metadata.deletionGracePeriodSeconds = 0;
        },
        uid,
      );
      if (!pod?.metadata.finalizers?.length) store.remove('pods', namespace, name, uid);
    });
  };
  const unsubscribe = store.subscribe(({ resource, type, object, previous }) => {
    if (resource !== 'pods') return;
    if (type === 'ADDED') start(object);
    if (type === 'MODIFIED' && object.metadata.deletionTimestamp && !previous?.metadata.deletionTimestamp) end(object);
  });
  return {
    mode: { kind: 'path', reason: 'a test double' },
    exec: async (_ref, command) => run(command),
    attach: async () => run(['cat']),
    logs: async (_ref, { previous }) => {
      if (previous) throw { status: 400, message: 'previous terminated container not found' };
      return Readable.from(['line one\n', 'line two\n']);
    },
    dial: async (_uid, port) => {
      const socket = connect(port, '127.0.0.1');
      await once(socket, 'connect');
      return socket;
    },
    close: async () => unsubscribe(),
  };
}
