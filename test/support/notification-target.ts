import type { NotificationTarget } from '../../lib/model/setting.js'

/** A stored target of notifications. */
export function aTarget(fields: Partial<NotificationTarget> = {}): NotificationTarget {
  return {
    id: 'ntf_a',
    name: 'team',
    kind: 'generic',
    url: 'http://127.0.0.1:9/secret',
    secret: '',
    events: ['deploy_success', 'deploy_failure'],
    projectIds: [],
    enabled: true,
    createdAt: '2026-01-02T03:04:05.678Z',
    updatedAt: '2026-01-02T03:04:05.678Z',
    ...fields
  }
}
