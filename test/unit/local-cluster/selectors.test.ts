import { describe, expect, it } from 'vitest';
import { fieldMatcher, labelMatcher } from '../../../src/local-cluster/api/selectors.ts';
import { ApiError } from '../../../src/local-cluster/api/status.ts';
import type { KubeObject } from '../../../src/local-cluster/types.ts';

const pod = (labels: Record<string, string>, rest: object = {}): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'p', namespace: 'n', uid: 'u', resourceVersion: '1', creationTimestamp: '', labels },
  ...rest,
});

describe('label selectors', () => {
  it.each([
    ['app=web', true],
    ['app==web', true],
    ['app!=web', false],
    ['tier!=x', true],
    ['app', true],
    ['!app', false],
    ['!tier', true],
    ['app in (db, web)', true],
    ['app in (db)', false],
    ['app notin (db)', true],
    ['tier notin (db)', true],
    ['tier in (db)', false],
    ['app=web,zone in (a,b),!tier', true],
    ['app=web,zone in (c)', false],
    ['example.com/x=y', false],
    ['', true],
  ])('%s', (selector, expected) => {
    expect(labelMatcher(selector)(pod({ app: 'web', zone: 'a' }))).toBe(expected);
  });

  it.each(['a in b', 'a=b=c', 'a b', '=x'])('refuses %s with 400', (selector) => {
    expect(() => labelMatcher(selector)).toThrow(expect.objectContaining({ code: 400 }));
  });
});

describe('field selectors', () => {
  const running = pod({}, { spec: { nodeName: 'local' }, status: { phase: 'Running' } });

  it.each([
    ['metadata.name=p', true],
    ['metadata.name=q', false],
    ['metadata.namespace=n', true],
    ['spec.nodeName=local,status.phase=Running', true],
    ['status.phase!=Failed,status.phase!=Succeeded', true],
    ['status.phase!=Running', false],
    ['spec.hostNetwork=false', true],
  ])('%s', (selector, expected) => {
    expect(fieldMatcher('pods', selector)(running)).toBe(expected);
  });

  it('selects events by what they are about', () => {
    const event = pod({}, { kind: 'Event', involvedObject: { uid: 'x', kind: 'Pod' }, source: { component: 'kubelet' } });
    expect(fieldMatcher('events', 'involvedObject.uid=x,involvedObject.kind=Pod,source=kubelet')(event)).toBe(true);
    expect(fieldMatcher('events', 'involvedObject.uid=y')(event)).toBe(false);
  });

  it('refuses fields that the resource cannot be selected by', () => {
    expect(() => fieldMatcher('pods', 'spec.foo=x')).toThrow('field label not supported: spec.foo');
    expect(() => fieldMatcher('configmaps', 'data.x=y')).toThrow(ApiError);
  });
});
