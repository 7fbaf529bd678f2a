import { expectedTags } from '../http/conditional.js'
import { json } from '../http/route.js'
import { eventKeys, kindDomains, notificationKinds } from '../model/notification-target.js'
import type { Targets } from '../notify/targets.js'
import type { Webhook } from '../notify/webhook.js'
import { flag, line, list, maxPathLength, name, oneOf, optional, readFields } from './fields.js'
import { param } from './route.js'
import type { Handler } from './route.js'
import { testReply } from './settings.js'

export interface NotificationTargetsNeeds {
  targets: Pick<Targets, 'list' | 'create' | 'update' | 'remove'>
  webhook: Pick<Webhook, 'test'>
}

const maxProjects = 1_000
const maxSecretLength = 1_024

const address = line({ min: 1, max: maxPathLength, trim: true })
export const targetFields = {
  name: optional(name),
  kind: optional(oneOf(notificationKinds)),
  url: optional(address),
  secret: optional(line({ max: maxSecretLength, trim: true })),
  events: optional(list(oneOf(eventKeys), { max: eventKeys.length })),
  projectIds: optional(list(line({ min: 1, max: 100 }), { max: maxProjects })),
  enabled: optional(flag)
}

export const newTargetFields = { ...targetFields, name, url: address }

/**
 * Where notifications go. Answers contain neither secrets nor the paths of addresses; both are kept if a change leaves
 * them out, and an empty `secret` removes it.
 */
export function notificationTargetHandlers({ targets, webhook }: NotificationTargetsNeeds) {
  return {
    /** `{items, domains}`; `domains` says which kind an address suggests. */
    list: () => json({ items: targets.list(), domains: kindDomains }),

    /** Takes `{name, url, kind?, secret?, events?, projectIds?, enabled?}`; answers `{success, target}`. */
    create: async request => {
      const fields = readFields(await request.json(), newTargetFields)
      return json({ success: true, target: await targets.create(withoutDoubles(fields), request.actor) })
    },

    /** Takes any of the fields; answers `{success, target}`. */
    update: async request => {
      const fields = readFields(await request.json(), targetFields)
      const change = { ...withoutDoubles(fields), seen: expectedTags(request.headers) }
      return json({ success: true, target: await targets.update(param(request, 'id'), change, request.actor) })
    },

    remove: async request => {
      await targets.remove(param(request, 'id'), request.actor)
      return json({ success: true, message: 'The notification target was deleted' })
    },

    /** Sends a test message and waits; answers as `POST /api/settings/webhook-test`. */
    test: async request => testReply(await webhook.test(request.actor, { signal: request.signal, targetId: param(request, 'id') }))
  } satisfies Record<string, Handler>
}

function withoutDoubles<T extends { events?: string[] | undefined; projectIds?: string[] | undefined }>(fields: T): T {
  const { events, projectIds } = fields
  return {
    ...fields,
    ...(events === undefined ? {} : { events: [...new Set(events)] }),
    ...(projectIds === undefined ? {} : { projectIds: [...new Set(projectIds)] })
  }
}
