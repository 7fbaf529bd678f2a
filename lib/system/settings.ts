import { randomBytes } from 'node:crypto'
import { Refusal } from '../base/refusal.js'
import { closest } from '../base/suggest.js'
import type { AuditEvent, Actor } from '../model/audit.js'
import { eventKeys } from '../model/notification-target.js'
import { checkSeen } from '../model/seen.js'
import type { Seen } from '../model/seen.js'
import type { SettingDescription, SettingType } from '../model/setting.js'
import type { Store, Transaction } from '../store/database.js'
import { readSettings, writeSetting } from '../store/tables/settings.js'
import type { Check } from './setting-checks.js'
import {
  absolutePath,
  addresses,
  commitPattern,
  deployToken,
  events,
  hostNames,
  httpUrl,
  itemsOf,
  maxValueLength,
  onOff,
  unusable,
  webhookSecret,
  whole,
  wholeOrNone
} from './setting-checks.js'

/** Of a key that is not known, in a sentence. */
const maxShownKey = 100

export interface SettingRow extends SettingDescription {
  /** The value as it is kept. Refuses: 400 naming the key. */
  check: Check
}

/** Every setting (§2.7). Reading, writing, docs/settings.md and the panel's form come from these rows. */
export const settingRows = [
  row('webhook_url', 'text', '', httpUrl, 'Where notifications are sent; empty: nowhere.'),
  row('webhook_events', 'list', 'deploy_success,deploy_failure', events, 'Which events are sent.', { choices: eventKeys }),
  row('webhook_secret', 'secret', '', webhookSecret, 'Signs notifications (Standard Webhooks); empty: unsigned.'),
  row('metrics_token', 'secret', '', deployToken, 'Also opens GET /metrics, and nothing else; empty: only the admin token does.'),
  row('default_deploy_path', 'text', '', absolutePath, 'Proposed as the directory of a new project.'),
  row('max_upload_size', 'number', '500', whole(1, 1_000_000), 'Largest archive that is taken.', { unit: 'MB' }),
  row('max_extracted_size', 'number', '4096', whole(1, 1_000_000), 'Most that an archive may hold unpacked.', { unit: 'MB' }),
  row('max_home_size', 'number', '0', wholeOrNone(100_000_000), 'Maximum size of the data directory; 0 or empty: no limit.', { unit: 'MB' }),
  row('max_output_size', 'number', '1024', whole(1, 1_000_000), 'Maximum output that is kept of a deployment.', { unit: 'MB' }),
  row('global_deploy_token', 'secret', '', deployToken, 'Accepted for uploads to any project; empty: none is.'),
  row('keep_archives', 'number', '10', whole(1, 10_000), 'Archives kept of successful deployments.', { unit: 'per project' }),
  row('script_timeout', 'number', '1800', whole(1, 86_400), 'How long a script may run.', { unit: 'seconds' }),
  row('allow_client_scripts', 'flag', 'true', onOff, 'Whether an upload may bring scripts of its own.'),
  row('durable_targets', 'flag', 'true', onOff, 'Whether files of a deployment are on the disk before it succeeds.'),
  row('trusted_proxies', 'list', '127.0.0.0/8,::1', addresses, 'Whose X-Forwarded-For is believed: addresses, CIDR.'),
  row('allowed_hosts', 'list', '', hostNames, 'Names in the address of the panel, next to that of SVC_PUBLIC_URL; empty and without it: all.'),
  row('allowed_ips', 'list', '', addresses, 'Who may deploy, roll back and open a terminal; empty: everybody.'),
  row('terminal_enabled', 'flag', 'true', onOff, 'Whether the panel has a terminal.'),
  row('commit_url', 'text', '', commitPattern, 'Address of a commit\'s page, with {commit} and {repository} ("team/shop"); empty: only public services are linked.'),
  row('audit_days', 'number', '400', whole(1, 36_500), 'How long entries of the audit log are kept.', { unit: 'days' })
] as const satisfies readonly SettingRow[]

export type SettingKey = (typeof settingRows)[number]['key']

export interface Settings {
  /** Every key, defaults included. */
  all(): Record<string, string>
  text(key: SettingKey): string
  number(key: SettingKey): number
  flag(key: SettingKey): boolean
  /** The same array until the settings change. */
  list(key: SettingKey): readonly string[]
  /** Whether its value is a secret: not to be repeated. */
  isSecret(key: string): boolean
  /**
   * A request's values as they would be kept; keeps none. Refuses 400, naming the key: `unknown_setting` with the nearest
   * key, and a value that its row refuses.
   */
  check(patch: Record<string, unknown>): Map<SettingKey, string>
  /** Names the values that `all` answers: another change, or another start of the server, has another name. */
  state(): string
  /**
   * Keeps checked values, all or none, each with its audit entry (the key, never the value). Refuses: 412 `changed_since`.
   */
  update(values: Map<SettingKey, string>, actor: Actor, seen?: Seen): Promise<void>
  /** To be called when somebody else has written settings into the store (an import). */
  reload(): void
}

interface Audit {
  within(tx: Transaction, event: AuditEvent): void
}

export function createSettings({ store, audit }: { store: Store; audit: Audit }): Settings {
  // Asked for on every request: kept in memory, and lists parsed once.
  let values = readValues(store)
  const start = randomBytes(6).toString('hex')
  // Changes of the store, and how many of them `values` has.
  let changes = 0
  let known = 0
  const lists = new Map<SettingKey, readonly string[]>()

  const text = (key: SettingKey): string => values[key] as string

  function reload(): void {
    values = readValues(store)
    known = changes
    lists.clear()
  }

  return {
    all: () => ({ ...values }),
    text,
    number: key => Number(text(key)),
    flag: key => text(key) === 'true',
    list(key) {
      let list = lists.get(key)
      if (list === undefined) lists.set(key, (list = itemsOf(text(key))))
      return list
    },
    isSecret: key => settingRows.some(row => row.key === key && row.type === 'secret'),
    check: checkSettings,
    state: () => `${start}-${known}`,
    async update(checked, actor, seen = {}) {
      try {
        await store.write(tx => {
          checkSeen(seen, `${start}-${changes}`, 'One of the settings')
          changes++
          for (const [key, value] of checked) {
            writeSetting(tx, key, value)
            audit.within(tx, { action: 'settings.update', actor, target: key })
          }
        })
      } finally {
        reload()
      }
    },
    reload() {
      changes++
      reload()
    }
  }
}

/** The rows as a form needs them. */
export function describeSettings(): SettingDescription[] {
  return settingRows.map(({ check: _, ...description }) => description)
}

function readValues(store: Store): Record<string, string> {
  const kept = readSettings(store)
  return Object.fromEntries(settingRows.map(({ key, default: fallback }) => [key, kept[key] ?? fallback]))
}

function checkSettings(patch: Record<string, unknown>): Map<SettingKey, string> {
  const keys: readonly string[] = settingRows.map(({ key }) => key)
  const unknown = Object.keys(patch).find(key => !keys.includes(key))
  if (unknown !== undefined) throw unknownSetting(unknown, keys)
  const checked = new Map<SettingKey, string>()
  for (const { key, check } of settingRows) {
    const value = Object.hasOwn(patch, key) ? patch[key] : undefined
    if (value === undefined) continue
    if (typeof value !== 'string') throw unusable(key, 'a string is needed')
    if (value.includes('\0') || value.length > maxValueLength) throw unusable(key, 'it is too long, or holds a NUL')
    checked.set(key, check(value.trim(), key))
  }
  return checked
}

function unknownSetting(key: string, keys: readonly string[]): Refusal {
  const shown = key.slice(0, maxShownKey)
  const meant = closest(shown, keys)
  const advice = meant === undefined ? '. GET /api/settings lists all' : `: did you mean "${meant}"?`
  return new Refusal('invalid', 'unknown_setting', `There is no setting "${shown}"${advice}`, { field: shown })
}

interface Extras {
  unit?: string
  choices?: readonly string[]
}

function row<K extends string>(key: K, type: SettingType, fallback: string, check: Check, help: string, extras: Extras = {}) {
  const { unit = null, choices } = extras
  return { key, type, unit, default: fallback, check, help, ...(choices === undefined ? {} : { choices }) }
}
