import type { SettingDescription } from '../../../lib/model/setting.js'
import type { Choice } from '../base/form.js'

/* The cards of the settings: their labels and order. All words are English and passed to t(). Pure. */

interface Row {
  key: string
  words: string
  /** What the values of a flag say: true, false. */
  sentences?: readonly [Choice, Choice]
}

/** A card of settings on the page. */
export interface SettingGroup {
  words: string
  /** Whether it belongs to what is above it. */
  isPart?: true
  rows: readonly Row[]
}

/** Labels and order. Everything else about a setting comes from the server. */
export const settingGroups: readonly SettingGroup[] = [
  {
    words: 'Address for notifications in the settings',
    isPart: true,
    rows: [
      { key: 'webhook_url', words: 'Address' },
      { key: 'webhook_events', words: 'Events' },
      { key: 'webhook_secret', words: 'Secret' }
    ]
  },
  {
    words: 'Deployments',
    rows: [
      { key: 'default_deploy_path', words: 'Default project directory' },
      { key: 'global_deploy_token', words: 'Global deploy token' },
      {
        key: 'allow_client_scripts',
        words: 'Scripts in a push',
        sentences: [
          { value: 'true', words: 'They run, unless the project says otherwise.' },
          { value: 'false', words: 'Pushes with scripts are rejected.' }
        ]
      },
      { key: 'script_timeout', words: 'Script timeout' },
      { key: 'gate_hosts', words: 'Hosts of checks' },
      {
        key: 'durable_targets',
        words: 'Sync files to disk',
        sentences: [
          { value: 'true', words: 'A deployment succeeds when its files survive a power cut.' },
          { value: 'false', words: 'A deployment is faster, and a power cut may lose files.' }
        ]
      },
      { key: 'commit_url', words: 'Commit page' }
    ]
  },
  {
    words: 'Limits and storage',
    rows: [
      { key: 'keep_archives', words: 'Archives to keep' },
      {
        key: 'share_archives',
        words: 'Share contents between archives',
        sentences: [
          { value: 'true', words: 'A push of changes keeps only what came with it.' },
          { value: 'false', words: 'Each archive is kept whole.' }
        ]
      },
      { key: 'keep_undo', words: 'Deployments that can be undone' },
      { key: 'max_before_size', words: 'Maximum size of kept copies per deployment' },
      { key: 'max_upload_size', words: 'Maximum archive size' },
      { key: 'max_extracted_size', words: 'Maximum uncompressed size' },
      { key: 'max_output_size', words: 'Maximum output per deployment' },
      { key: 'max_home_size', words: 'Maximum size of the data directory' },
      { key: 'fleet_upload_rate', words: 'Maximum rate to nodes' }
    ]
  },
  {
    words: 'Network',
    rows: [
      { key: 'allowed_ips', words: 'Addresses allowed to deploy' },
      { key: 'trusted_proxies', words: 'Trusted proxies' },
      { key: 'allowed_hosts', words: 'Panel host names' },
      { key: 'outgoing_ca', words: 'File of trusted authorities' }
    ]
  },
  {
    words: 'Access',
    rows: [
      {
        key: 'terminal_enabled',
        words: 'Terminal',
        sentences: [
          { value: 'true', words: 'Admins can open a terminal in the panel.' },
          { value: 'false', words: 'Nobody can open a terminal.' }
        ]
      },
      { key: 'proof_minutes', words: 'Ask for the token again' },
      { key: 'token_max_days', words: 'Longest validity of tokens' },
      { key: 'token_rotate_days', words: 'Age of old tokens' },
      { key: 'metrics_token', words: 'Metrics token' }
    ]
  },
  {
    words: 'Audit log',
    rows: [
      { key: 'audit_days', words: 'Audit log retention' },
      { key: 'checkpoint_file', words: 'File of audit checkpoints' }
    ]
  }
]

/** The label of each setting in the form. English; passed to t(). */
export const settingLabels: Readonly<Record<string, string>> = Object.fromEntries(
  settingGroups.flatMap(({ rows }) => rows.map(({ key, words }) => [key, words]))
)

/** A setting of the server with its label, and what its values say. */
export interface NamedSetting extends SettingDescription {
  words: string
  sentences: readonly Choice[]
}

/** A card with the settings of the server. */
export interface CardOfSettings extends Omit<SettingGroup, 'rows'> {
  settings: NamedSetting[]
}

/** What a flag says that the panel does not know. */
const onOff: readonly Choice[] = [
  { value: 'true', words: 'On' },
  { value: 'false', words: 'Off' }
]

/**
 * Returns the settings of the server in cards. Settings without a card form one of their own, labelled by their keys.
 */
export function groupSettings(settings: readonly SettingDescription[]): CardOfSettings[] {
  const named = (setting: SettingDescription, row?: Row): NamedSetting => ({
    ...setting,
    words: row?.words ?? setting.key,
    sentences: setting.type === 'flag' ? (row?.sentences ?? onOff) : []
  })
  const placed = settingGroups.map(({ rows, ...card }) => ({
    ...card,
    settings: rows.flatMap(row => settings.filter(({ key }) => key === row.key).map(setting => named(setting, row)))
  }))
  const known = new Set(settingGroups.flatMap(({ rows }) => rows.map(({ key }) => key)))
  const others = settings.filter(({ key }) => !known.has(key)).map(setting => named(setting))
  return [...placed, { words: 'Others', settings: others }].filter(({ settings }) => settings.length > 0)
}
