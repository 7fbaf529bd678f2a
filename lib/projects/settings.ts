import { randomBytes } from 'node:crypto'
import { Refusal } from '../base/errors.js'
import { type Change, writeChanges } from '../base/shared/audit.js'
import { closest, itemsOf } from '../base/text.js'
import type { AuditEvent, Actor } from '../model/audit.js'
import { changes } from '../model/readers.js'
import { checkSeen, eventKeys, maskedAddress, type Seen, type SettingDescription } from '../model/setting.js'
import type { Reader, Store, Transaction } from '../core/store/database.js'
import { readSettings, writeSetting } from '../core/store/tables/server.js'
import { defaultTrustedProxies } from '../http/core/headers.js'
import {
  type Check,
  absolutePath,
  addresses,
  authorityFile,
  commitPattern,
  deployToken,
  events,
  filePlace,
  hostNames,
  hosts,
  httpUrl,
  maxValueLength,
  onOff,
  unusable,
  webhookSecret,
  whole,
  wholeOrNone
} from './setting-checks.js'

/** Longest part of an unknown key that a message repeats, in characters. */
const maxShownKey = 100

/** One setting: its description and its check. */
export interface SettingRow extends SettingDescription {
  /** Returns the value as it is stored. Refuses a wrong value with 400 and names the key. */
  check: Check
}

/** The table of all settings (§2.7). The API, docs/settings.md and the panel's form are generated from it. */
export const settingRows = [
  {
    key: 'webhook_url',
    type: 'text',
    unit: null,
    default: '',
    check: httpUrl,
    help: 'Address that receives notifications. Empty sends none.'
  },
  {
    key: 'webhook_events',
    type: 'list',
    unit: null,
    default: 'deploy_success,deploy_failure',
    check: events,
    help: 'Events that are sent.',
    choices: eventKeys
  },
  {
    key: 'webhook_secret',
    type: 'secret',
    unit: null,
    default: '',
    check: webhookSecret,
    help: 'Secret that signs notifications (Standard Webhooks). Empty sends them unsigned.'
  },
  {
    key: 'metrics_token',
    type: 'secret',
    unit: null,
    default: '',
    check: deployToken,
    help: 'Token that is accepted by GET /metrics only. Empty accepts the tokens of admins alone.'
  },
  {
    key: 'default_deploy_path',
    type: 'text',
    unit: null,
    default: '',
    check: absolutePath,
    help: 'Directory that the panel suggests for new projects.'
  },
  {
    key: 'max_upload_size',
    type: 'number',
    unit: 'MB',
    default: '500',
    check: whole(1, 1_000_000),
    help: 'Maximum size of an uploaded archive.'
  },
  {
    key: 'max_extracted_size',
    type: 'number',
    unit: 'MB',
    default: '4096',
    check: whole(1, 1_000_000),
    help: 'Maximum uncompressed size of an archive.'
  },
  {
    key: 'max_home_size',
    type: 'number',
    unit: 'MB',
    default: '0',
    check: wholeOrNone(100_000_000),
    help: 'Maximum size of the data directory. 0 or empty sets no limit.'
  },
  {
    key: 'max_output_size',
    type: 'number',
    unit: 'MB',
    default: '1024',
    check: whole(1, 1_000_000),
    help: 'Maximum stored output of a deployment.'
  },
  {
    key: 'fleet_upload_rate',
    type: 'number',
    unit: 'MB/s',
    default: '0',
    check: wholeOrNone(100_000),
    help: 'Maximum rate at which archives are sent to nodes, all together. 0 or empty sets no limit.'
  },
  {
    key: 'global_deploy_token',
    type: 'secret',
    unit: null,
    default: '',
    check: deployToken,
    help: 'Token that may upload to every project. Empty disables it.'
  },
  {
    key: 'keep_archives',
    type: 'number',
    unit: 'per project',
    default: '10',
    check: whole(1, 10_000),
    help: 'Number of archives of successful deployments to keep.'
  },
  {
    key: 'keep_undo',
    type: 'number',
    unit: 'per project',
    default: '9',
    check: whole(0, 1_000),
    help: 'Number of deployments that can be undone exactly. It is always less than keep_archives.'
  },
  {
    key: 'max_before_size',
    type: 'number',
    unit: 'MB',
    default: '2048',
    check: whole(0, 1_048_576),
    help: 'Maximum size of the files that one deployment replaces and that are kept because no archive contains them.'
  },
  {
    key: 'script_timeout',
    type: 'number',
    unit: 'seconds',
    default: '1800',
    check: whole(1, 86_400),
    help: 'Maximum running time of a script.'
  },
  {
    key: 'allow_client_scripts',
    type: 'flag',
    unit: null,
    default: 'true',
    check: onOff,
    help: 'Whether uploads may contain their own scripts.'
  },
  {
    key: 'gate_hosts',
    type: 'list',
    unit: null,
    default: '',
    check: hosts,
    help: 'Hosts and addresses that the checks of deployments may connect to, besides this machine.'
  },
  {
    key: 'outgoing_ca',
    type: 'text',
    unit: null,
    default: '',
    check: authorityFile,
    help: 'File with certificates (PEM) of authorities that notifications, checks and telemetry trust, besides the usual ones. It is read again when it changes.'
  },
  {
    key: 'durable_targets',
    type: 'flag',
    unit: null,
    default: 'true',
    check: onOff,
    help: 'Whether files are synced to the disk before a deployment succeeds.'
  },
  {
    key: 'share_archives',
    type: 'flag',
    unit: null,
    default: 'true',
    check: onOff,
    help: 'Whether the archive of an upload of changes keeps only what the earlier ones do not contain.'
  },
  {
    key: 'trusted_proxies',
    type: 'list',
    unit: null,
    default: defaultTrustedProxies,
    check: addresses,
    help: 'Proxies whose X-Forwarded-For header is trusted: addresses or CIDR blocks.'
  },
  {
    key: 'allowed_hosts',
    type: 'list',
    unit: null,
    default: '',
    check: hostNames,
    help: 'Host names that the server answers to, besides that of SVC_PUBLIC_URL. If both are empty, every name is accepted.'
  },
  {
    key: 'allowed_ips',
    type: 'list',
    unit: null,
    default: '',
    check: addresses,
    help: 'Client addresses that may deploy, roll back and open a terminal. Empty allows all.'
  },
  {
    key: 'terminal_enabled',
    type: 'flag',
    unit: null,
    default: 'true',
    check: onOff,
    help: 'Whether the web terminal is available.'
  },
  {
    key: 'commit_url',
    type: 'text',
    unit: null,
    default: '',
    check: commitPattern,
    help: 'Address of the page of a commit, with {commit} and {repository} ("team/shop"). If it is empty, only commits on public services are links.'
  },
  {
    key: 'audit_days',
    type: 'number',
    unit: 'days',
    default: '400',
    check: whole(1, 36_500),
    help: 'How long entries of the audit log are kept.'
  },
  {
    key: 'checkpoint_file',
    type: 'text',
    unit: null,
    default: '',
    check: filePlace,
    help: 'File that gets each signed checkpoint of the audit log, best on another machine. With ">>" before the path it is appended. Empty writes none.'
  },
  {
    key: 'token_max_days',
    type: 'number',
    unit: 'days',
    default: '365',
    check: whole(1, 36_500),
    help: 'Longest time for which a new named token is valid.'
  },
  {
    key: 'token_rotate_days',
    type: 'number',
    unit: 'days',
    default: '0',
    check: wholeOrNone(36_500),
    help: 'Age from which the secret of a named token is reported. 0 or empty never reports it.'
  },
  {
    key: 'proof_minutes',
    type: 'number',
    unit: 'minutes',
    default: '15',
    check: wholeOrNone(10_080),
    help: 'Time after which the panel asks for the token again before the terminal, settings, tokens and exports. 0 never asks.'
  }
] as const satisfies readonly SettingRow[]

export type SettingKey = (typeof settingRows)[number]['key']

/** The settings of the server. Reads come from memory. */
export type Settings = ReturnType<typeof createSettings>

interface Audit {
  within(tx: Transaction, event: AuditEvent): void
}

interface SettingsNeeds {
  store: Store
  audit: Audit
  /**
   * Returns a text that changes whenever the settings in the store do. Only a hub of a cluster needs it: there the
   * leader changes them.
   */
  version?: () => string
}

/** Creates the settings service, with the values of the store. */
export function createSettings({ store, audit, version = () => '' }: SettingsNeeds) {
  // Every request reads settings, so they stay in memory and lists are parsed once.
  let values = readValues(store)
  const start = randomBytes(6).toString('hex')
  // Number of changes in the store, and the number that `values` contains.
  let edits = 0
  let known = 0
  const lists = new Map<SettingKey, readonly string[]>()

  let seenVersion = version()

  function text(key: SettingKey): string {
    follow()
    return values[key] as string
  }

  /** Reads the settings again if another hub has changed them. */
  function follow(): void {
    if (version() === seenVersion) return
    edits++
    reload()
  }

  function reload(): void {
    seenVersion = version()
    values = readValues(store)
    known = edits
    lists.clear()
  }

  return {
    /** Returns the values of all keys, defaults included. */
    all(): Record<string, string> {
      follow()
      return { ...values }
    },
    text,
    number: (key: SettingKey): number => Number(text(key)),
    flag: (key: SettingKey): boolean => text(key) === 'true',

    /** Returns the items of a list. The array is the same until the settings change. */
    list(key: SettingKey): readonly string[] {
      follow()
      let list = lists.get(key)
      if (list === undefined) lists.set(key, (list = itemsOf(text(key))))
      return list
    },

    /** Whether the value is a secret, which must not be shown. */
    isSecret: (key: string): boolean => settingRows.some(row => row.key === key && row.type === 'secret'),
    check: checkSettings,

    /** Returns the name of the current values for If-Match. It differs after each change and after each start. */
    state(): string {
      follow()
      return `${start}-${known}`
    },

    /**
     * Stores checked values in one transaction, with an audit entry for each that changes. Refuses outdated values of
     * `seen` with 412 `changed_since`.
     */
    async update(checked: Map<SettingKey, string>, actor: Actor, seen: Seen = {}): Promise<void> {
      try {
        await store.write(tx => {
          checkSeen(seen, `${start}-${edits}`, 'A setting')
          edits++
          const before = readValues(tx)
          for (const [key, value] of checked) {
            writeSetting(tx, key, value)
            const changed = settingChanges(key, before[key] as string, value)
            const detail = writeChanges('', changed)
            if (changed.length > 0) audit.within(tx, { action: 'settings.update', actor, target: key, detail })
          }
        })
      } finally {
        reload()
      }
    },

    /** Reads the settings again after other code wrote them to the store, as an import does. */
    reload(): void {
      edits++
      reload()
    }
  }
}

/** Returns the change of a setting as its audit entry shows it; an empty list if there is none. */
export function settingChanges(key: SettingKey, before: string, value: string): Change[] {
  const row = settingRows.find(row => row.key === key)
  const isList = row?.type === 'list'
  const readers = { fields: { [key]: isList ? { items: 'everybody' } : readerOf(key, row?.type) } } as const
  const shown = (text: string): object => ({ [key]: isList ? itemsOf(text) : text })
  return changes<object>(shown(before), shown(value), readers)
}

/** Who reads a setting in the audit log. The path of a webhook is a secret, too. */
function readerOf(key: SettingKey, type: SettingDescription['type'] | undefined) {
  if (type === 'secret') return 'nobody'
  return key === 'webhook_url' ? { without: maskedAddress } : 'everybody'
}

/** Returns the rows for the form of the panel, without their checks. */
export function describeSettings(): SettingDescription[] {
  return settingRows.map(({ check: _, ...description }) => description)
}

function readValues(store: Reader): Record<string, string> {
  const kept = readSettings(store)
  return Object.fromEntries(settingRows.map(({ key, default: fallback }) => [key, kept[key] ?? fallback]))
}

/**
 * Returns the values of a request as they would be stored, and stores nothing. Refuses an unknown key (400
 * `unknown_setting`, with the nearest key) and a wrong value (400 `invalid_setting`).
 */
export function checkSettings(patch: Record<string, unknown>): Map<SettingKey, string> {
  const keys: readonly string[] = settingRows.map(({ key }) => key)
  const unknown = Object.keys(patch).find(key => !keys.includes(key))
  if (unknown !== undefined) throw unknownSetting(unknown, keys)
  const checked = new Map<SettingKey, string>()
  for (const { key, check } of settingRows) {
    const value = Object.hasOwn(patch, key) ? patch[key] : undefined
    if (value === undefined) continue
    if (typeof value !== 'string') throw unusable(key, 'it must be a string')
    if (value.includes('\0') || value.length > maxValueLength)
      throw unusable(key, 'it is too long or contains a NUL character')
    checked.set(key, check(value.trim(), key))
  }
  return checked
}

function unknownSetting(key: string, keys: readonly string[]): Refusal {
  const shown = key.slice(0, maxShownKey)
  const meant = closest(shown, keys)
  const advice = meant === undefined ? '. GET /api/settings lists all settings' : `. Did you mean "${meant}"?`
  return new Refusal('invalid', 'unknown_setting', `Unknown setting "${shown}"${advice}`, { field: shown })
}
