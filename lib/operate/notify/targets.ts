import { present } from '../../base/fields.js'
import { type Clock, instantOf } from '../../base/clock.js'
import type { Ids } from '../../base/digests.js'
import { invalid, notFound, Refusal } from '../../base/errors.js'
import { writeChanges } from '../../base/shared/audit.js'
import type { Actor, AuditEvent } from '../../model/audit.js'
import { changes, type Readers } from '../../model/readers.js'
import {
  checkSeen,
  eventKeys,
  maskedAddress,
  maxNotificationTargets,
  type NotificationEvent,
  type NotificationKind,
  type NotificationTarget,
  type NotificationTargetView,
  type Seen,
  settingsTargetId,
  suggestedKind,
  targetAddressFault,
  targetSecretFault
} from '../../model/setting.js'
import { parseHttpUrl, parseUrl } from '../../base/text.js'
import type { Reader, Store, Transaction } from '../../core/store/database.js'
import { projectNames } from '../../core/store/tables/projects.js'
import {
  deleteNotificationTarget,
  findNotificationTarget,
  insertNotificationTarget,
  listNotificationTargets,
  queueOf,
  updateNotificationTarget
} from '../../core/store/tables/server.js'
import { kindOfSetting, takesSecret } from './payloads.js'

/** The fields of a target that a client can set. Undefined keeps the current value or the default. */
export interface TargetFields {
  name?: string | undefined
  kind?: NotificationKind | undefined
  url?: string | undefined
  secret?: string | undefined
  events?: NotificationEvent[] | undefined
  projectIds?: string[] | undefined
  enabled?: boolean | undefined
}

/** The fields of a target that are needed to send a message. */
export type Destination = Pick<NotificationTarget, 'id' | 'name' | 'kind' | 'url' | 'secret'>

/** The notification targets: the one of the settings `webhook_…`, and the stored ones. */
export type Targets = ReturnType<typeof createTargets>

export interface TargetsNeeds {
  store: Store
  clock: Clock
  ids: Pick<Ids, 'id'>
  audit: { within(tx: Transaction, event: AuditEvent): void }
  /** Read again for each message. */
  settings: WebhookSettings
  isProject(db: Reader, id: string): boolean
}

export interface WebhookSettings {
  text(key: 'webhook_url' | 'webhook_secret'): string
  list(key: 'webhook_events'): readonly string[]
}

export function createTargets(needs: TargetsNeeds) {
  const { store, clock, ids, audit, settings } = needs
  return {
    /** Returns the target of the settings, then the stored ones in the order in which they were added. */
    list: (): NotificationTargetView[] => [
      settingsView(settings),
      ...listNotificationTargets(store).map(target => viewOf(store, target))
    ],

    /** The default kind is the one that the address suggests. Refuses: 400, 409 `too_many_targets`. */
    create: (fields: TargetFields & { name: string; url: string }, actor: Actor): Promise<NotificationTargetView> =>
      store.write(tx => {
        if (listNotificationTargets(tx).length >= maxNotificationTargets) throw tooMany()
        checkProjects(fields.projectIds, [], id => needs.isProject(tx, id))
        const target = checked({
          id: ids.id('ntf_'),
          name: fields.name,
          kind: fields.kind ?? kindOfUrl(fields.url),
          url: fields.url,
          secret: fields.secret ?? '',
          events: fields.events ?? [...eventKeys],
          projectIds: fields.projectIds ?? [],
          enabled: fields.enabled ?? true,
          createdAt: instantOf(clock),
          updatedAt: instantOf(clock)
        })
        insertNotificationTarget(tx, target)
        const detail = writeChanges(describe(target), changes(null, audited(tx, target), targetReaders))
        audit.within(tx, { action: 'notification_target.create', actor, target: target.id, detail })
        return viewOf(tx, target)
      }),

    /** Refuses: 400, 404, 409 `settings_target`, 412 `changed_since`. */
    update: (id: string, { seen, ...fields }: TargetFields & Seen, actor: Actor): Promise<NotificationTargetView> =>
      store.write(tx => {
        const before = existing(tx, id)
        checkSeen({ seen }, before.updatedAt, 'The notification target')
        checkProjects(fields.projectIds, before.projectIds, id => needs.isProject(tx, id))
        const kind = fields.kind ?? before.kind
        const target = checked({
          ...before,
          ...present(fields),
          // A secret is removed if the new kind does not use one.
          secret: fields.secret ?? (takesSecret(kind) ? before.secret : ''),
          updatedAt: instantOf(clock)
        })
        updateNotificationTarget(tx, id, target)
        const changed = changes(audited(tx, before), audited(tx, target), targetReaders)
        const detail = writeChanges(describe(before), changed)
        if (changed.length > 0) audit.within(tx, { action: 'notification_target.update', actor, target: id, detail })
        return viewOf(tx, target)
      }),

    /** Refuses: 404, 409 `settings_target`. */
    remove: (id: string, actor: Actor): Promise<void> =>
      store.write(tx => {
        const target = existing(tx, id)
        deleteNotificationTarget(tx, id)
        audit.within(tx, { action: 'notification_target.delete', actor, target: id, detail: describe(target) })
      }),

    /**
     * Returns the destinations of an event. `projectIds` are the projects that it concerns; null means the whole server,
     * which a target with a list of projects does not hear about.
     */
    wanting(event: NotificationEvent, projectIds: readonly string[] | null): Destination[] {
      const first = settings.list('webhook_events').includes(event) ? settingsDestination(settings) : null
      const stored = listNotificationTargets(store).filter(({ enabled, events, projectIds: limit }) => {
        return enabled && events.includes(event) && (limit.length === 0 || limit.some(id => projectIds?.includes(id)))
      })
      return first === null ? stored : [first, ...stored]
    },

    /** Returns a target by id, even if it is disabled. Refuses: 404, 400 `no_webhook` if the settings have no address. */
    find(id: string): Destination {
      if (id !== settingsTargetId) return existing(store, id)
      const target = settingsDestination(settings)
      if (target !== null) return target
      const sentence = 'Cannot send the test message: there is no address. Set webhook_url first'
      throw new Refusal('invalid', 'no_webhook', sentence, { field: 'webhook_url' })
    }
  }
}

/** Returns the target of the settings, or null if they have no address. */
function settingsDestination(settings: WebhookSettings): Destination | null {
  const url = settings.text('webhook_url')
  if (url === '') return null
  const kind = kindOfSetting(parseHttpUrl(url)?.hostname ?? '')
  return { id: settingsTargetId, name: 'webhook_url', kind, url, secret: settings.text('webhook_secret') }
}

/** Returns the target of the settings, which may have no address. */
function settingsView(settings: WebhookSettings): NotificationTargetView {
  const target = settingsDestination(settings)
  return {
    id: settingsTargetId,
    name: 'webhook_url',
    kind: target?.kind ?? 'generic',
    address: maskedAddress(target?.url ?? ''),
    hasSecret: settings.text('webhook_secret') !== '',
    isFromSettings: true,
    events: eventKeys.filter(event => settings.list('webhook_events').includes(event)),
    projectIds: [],
    enabled: target !== null,
    queue: { waiting: 0, oldestAt: null, nextAt: null, problem: null, dropped: 0 },
    createdAt: null,
    updatedAt: null
  }
}

function existing(db: Reader, id: string): NotificationTarget {
  if (id === settingsTargetId) throw onlyInSettings()
  const target = findNotificationTarget(db, id)
  if (target === undefined) throw notFound('Notification target', id)
  return target
}

/** Refuses unknown projects. A removed project may stay in the list, because an empty list means all projects. */
function checkProjects(
  given: readonly string[] | undefined,
  kept: readonly string[],
  isProject: (id: string) => boolean
): void {
  const unknown = given?.find(id => !kept.includes(id) && !isProject(id))
  if (unknown !== undefined) throw invalid('projectIds', `"projectIds" contains "${unknown}": there is no such project`)
}

/** Returns a target without its secrets. */
function viewOf(db: Reader, { url, secret, ...target }: NotificationTarget): NotificationTargetView {
  const queue = queueOf(db, target.id)
  return { ...target, address: maskedAddress(url), hasSecret: secret !== '', isFromSettings: false, queue }
}

/** Returns the text for an audit entry. It contains only the host of the address. */
function describe({ name, kind, url }: NotificationTarget): string {
  return `${name} (${kind}, ${new URL(url).host})`
}

/** What the audit entries of a target show. */
type Audited = Omit<NotificationTarget, 'id' | 'createdAt' | 'updatedAt'>

/** Who reads it. */
export const targetReaders: Readers<Audited> = {
  fields: {
    name: 'everybody',
    kind: 'everybody',
    url: { without: maskedAddress },
    secret: 'nobody',
    events: { items: 'everybody' },
    projectIds: { items: 'everybody' },
    enabled: 'everybody'
  }
}

/** Returns a target as its audit entries show it. */
function audited(db: Reader, target: NotificationTarget): Audited {
  const { projectIds } = target
  return { ...target, projectIds: projectIds.length === 0 ? ['all'] : projectNames(db, projectIds) }
}

/** Refuses an address or a secret that cannot be used. */
function checked(target: NotificationTarget): NotificationTarget {
  const { kind, secret } = target
  const url = addressOf(target).href
  const fault = targetSecretFault(kind, secret)
  if (kind === 'telegram' && fault !== null) throw invalid('secret', `"secret" cannot be set: ${fault}`)
  if (secret === '') return { ...target, url }
  if (!takesSecret(kind)) {
    throw invalid('secret', `"secret" cannot be set: messages of the kind "${kind}" are not signed. Leave it empty`)
  }
  if (fault !== null) throw invalid('secret', `"secret" cannot be set: ${fault}`)
  return { ...target, url }
}

function kindOfUrl(text: string): NotificationKind {
  if (/^smtps?:/i.test(text)) return 'email'
  return suggestedKind(parseHttpUrl(text)?.hostname ?? '')
}

/** Returns the address of a destination; null if it is not valid. */
export function parseTarget({ kind, url }: Pick<Destination, 'kind' | 'url'>): URL | null {
  return targetAddressFault(kind, url) === null ? parseUrl(url) : null
}

function addressOf({ kind, url }: Pick<NotificationTarget, 'kind' | 'url'>): URL {
  const fault = targetAddressFault(kind, url)
  if (fault !== null) throw invalid('url', `"url" cannot be set: ${fault}`)
  return new URL(url)
}

function tooMany(): Refusal {
  const sentence = `Cannot add the notification target: the maximum of ${maxNotificationTargets} has been reached`
  return new Refusal('conflict', 'too_many_targets', sentence)
}

function onlyInSettings(): Refusal {
  const sentence = 'This target comes from the settings webhook_url, webhook_events and webhook_secret. Change it there'
  return new Refusal('conflict', 'settings_target', sentence)
}
