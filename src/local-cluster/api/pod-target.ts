import type { ContainerRef, KubeObject } from '../types.ts';
import type { ApiContext } from './context.ts';
import { resourceNamed } from './resources.ts';
import { badRequest, notFound } from './status.ts';

export interface PodTarget {
  readonly pod: KubeObject;
  readonly ref: ContainerRef;
}

interface Named {
  readonly name: string;
}

/** The Pod of an exec, attach, forward or log; 404 when it is not there. */
export function findPod(context: ApiContext, namespace: string | undefined, name: string): KubeObject {
  const pod = context.store.get('pods', namespace, name);
  if (!pod) throw notFound(resourceNamed('pods'), name);
  return pod;
}

export function checkHost(pod: KubeObject): void {
  if (!pod.spec.nodeName) throw badRequest(`pod ${pod.metadata.name} does not have a host assigned`);
}

function choose(pod: KubeObject, asked: string | null): string {
  const containers: Named[] = pod.spec.containers;
  const inits: Named[] = pod.spec.initContainers ?? [];
  if (asked) {
    if ([...containers, ...inits].some((one) => one.name === asked)) return asked;
    throw badRequest(`container ${asked} is not valid for pod ${pod.metadata.name}`);
  }
  const annotated = pod.metadata.annotations?.['kubectl.kubernetes.io/default-container'];
  if (annotated && containers.some((one) => one.name === annotated)) return annotated;
  if (containers.length === 1) return containers[0]!.name;
  const names = containers.map((one) => one.name).join(' ');
  const initNames = inits.map((one) => one.name).join(' ');
  const also = initNames ? ` or one of the init containers: [${initNames}]` : '';
  throw badRequest(`a container name must be specified for pod ${pod.metadata.name}, choose one of: [${names}]${also}`);
}

/** Pod and container of a request, with the server's own refusals. */
export function findContainer(
  context: ApiContext,
  namespace: string | undefined,
  name: string,
  query: URLSearchParams,
): PodTarget {
  const pod = findPod(context, namespace, name);
  return { pod, ref: { podUid: pod.metadata.uid, container: choose(pod, query.get('container')) } };
}
