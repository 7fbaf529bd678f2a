import { expectedTags } from '../http/core/reply.js'
import { json } from '../http/core/route.js'
import { eventKeys, kindDomains, notificationKinds } from '../model/notification-target.js'
import type { Targets } from '../notify/targets.js'
import type { Webhook } from '../notify/webhook.js'
import { flag, line, list, maxPathLength, name, oneOf, optional, readFields } from '../base/fields.js'
import { param, type Handler } from './route.js'
import { testReply } from './settings.js'

/** Dependencies of the handlers of notification targets. */
export interface NotificationTargetsNeeds {
  targets: Pick<Targets, 'list' | 'create' | 'update' | 'remove'>
  webhook: Pick<Webhook, 'test' | 'retry'>
}

const maxProjects = 1_000
const maxSecretLength = 1_024

const address = line({ min: 1, max: maxPathLength, trim: true })
/** Fields of a change of a notification target. */
export const targetFields = {
  name: optional(name),
  /** The format of messages. Default: the kind that the address suggests. */
  kind: optional(oneOf(notificationKinds)),
  /** The address to send messages to. It may contain secrets, and responses do not contain it. */
  url: optional(address),
  /** Secret for signing messages. Empty means none. */
  secret: optional(line({ max: maxSecretLength, trim: true })),
  /** The events to notify about. */
  events: optional(list(oneOf(eventKeys), { max: eventKeys.length })),
  /** Projects to notify about. Empty means all. */
  projectIds: optional(list(line({ min: 1, max: 100 }), { max: maxProjects })),
  /** Whether messages are sent. */
  enabled: optional(flag)
}

/** Fields of a new notification target. */
export const newTargetFields = {
  ...targetFields,
  name,
  /** The address to send messages to. It may contain secrets, and responses do not contain it. */
  url: address
}

/**
 * Handlers of notification targets. Responses contain neither secrets nor the paths of addresses. A change without them
 * keeps both; an empty `secret` removes the secret.
 */
export function notificationTargetHandlers({ targets, webhook }: NotificationTargetsNeeds) {
  return {
    /** `GET /api/notification-targets`: `{items, domains}`. `domains` contains the kind to suggest for a domain. */
    list: () => json({ items: targets.list(), domains: kindDomains }),

    /** `POST /api/notification-targets {name, url, kind?, secret?, events?, projectIds?, enabled?}`. */
    create: async request => {
      const fields = readFields(await request.json(), newTargetFields)
      return json({ success: true, target: await targets.create(withoutDuplicates(fields), request.actor) })
    },

    /** `PUT /api/notification-targets/:id`: changes the given fields. */
    update: async request => {
      const fields = readFields(await request.json(), targetFields)
      const change = { ...withoutDuplicates(fields), seen: expectedTags(request.headers) }
      const target = await targets.update(param(request, 'id'), change, request.actor)
      webhook.retry(target.id)
      return json({ success: true, target })
    },

    remove: async request => {
      await targets.remove(param(request, 'id'), request.actor)
      return json({ success: true, message: 'The notification target was deleted' })
    },

    /** `POST /api/notification-targets/:id/test`: sends a test message and waits for the result. */
    test: async request =>
      testReply(await webhook.test(request.actor, { signal: request.signal, targetId: param(request, 'id') }))
  } satisfies Record<string, Handler>
}

function withoutDuplicates<T extends { events?: string[] | undefined; projectIds?: string[] | undefined }>(
  fields: T
): T {
  const { events, projectIds } = fields
  return {
    ...fields,
    ...(events === undefined ? {} : { events: [...new Set(events)] }),
    ...(projectIds === undefined ? {} : { projectIds: [...new Set(projectIds)] })
  }
}
