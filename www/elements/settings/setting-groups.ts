import type { SettingDescription } from '../../../lib/model/setting.js'

/* The layout of the settings: their labels, groups and order. Pure. */

/** A group of settings on the page. */
export interface SettingGroup {
  /** English; passed to t(). */
  words: string
  rows: ReadonlyArray<{ key: string; words: string }>
}

/** Labels and order. Everything else about a setting comes from the server. */
export const settingGroups: readonly SettingGroup[] = [
  {
    words: 'Address for notifications in the settings',
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
      { key: 'allow_client_scripts', words: 'Allow scripts in a push' },
      { key: 'durable_targets', words: 'Sync files to disk' },
      { key: 'gate_hosts', words: 'Hosts of checks' },
      { key: 'script_timeout', words: 'Script timeout' },
      { key: 'max_upload_size', words: 'Maximum archive size' },
      { key: 'max_extracted_size', words: 'Maximum uncompressed size' },
      { key: 'keep_archives', words: 'Archives to keep' },
      { key: 'keep_undo', words: 'Deployments that can be undone' },
      { key: 'max_before_size', words: 'Maximum size of kept copies per deployment' },
      { key: 'max_output_size', words: 'Maximum output per deployment' },
      { key: 'max_home_size', words: 'Maximum size of the data directory' },
      { key: 'fleet_upload_rate', words: 'Maximum rate to nodes' },
      { key: 'commit_url', words: 'Commit page' },
      { key: 'outgoing_ca', words: 'File of trusted authorities' }
    ]
  },
  {
    words: 'Access',
    rows: [
      { key: 'allowed_ips', words: 'Addresses allowed to deploy' },
      { key: 'trusted_proxies', words: 'Trusted proxies' },
      { key: 'allowed_hosts', words: 'Panel host names' },
      { key: 'terminal_enabled', words: 'Terminal' },
      { key: 'metrics_token', words: 'Metrics token' },
      { key: 'audit_days', words: 'Audit log retention' },
      { key: 'checkpoint_file', words: 'File of audit checkpoints' },
      { key: 'proof_minutes', words: 'Ask for the token again' },
      { key: 'token_max_days', words: 'Longest validity of tokens' },
      { key: 'token_rotate_days', words: 'Age of old tokens' }
    ]
  }
]

/** The label of each setting in the form. English; passed to t(). */
export const settingLabels: Readonly<Record<string, string>> = Object.fromEntries(
  settingGroups.flatMap(({ rows }) => rows.map(({ key, words }) => [key, words]))
)

/** A setting of the server with its label. */
export interface NamedSetting extends SettingDescription {
  /** English; passed to t(). */
  words: string
}

/**
 * Returns the settings of the server in groups. Settings without a group form one of their own, labelled by their keys.
 */
export function groupSettings(
  settings: readonly SettingDescription[]
): Array<{ words: string; settings: NamedSetting[] }> {
  const placed = settingGroups.map(({ words, rows }) => ({
    words,
    settings: rows.flatMap(({ key, words }) => {
      const setting = settings.find(setting => setting.key === key)
      return setting === undefined ? [] : [{ ...setting, words }]
    })
  }))
  const known = new Set(settingGroups.flatMap(({ rows }) => rows.map(({ key }) => key)))
  const others = settings.filter(({ key }) => !known.has(key)).map(setting => ({ ...setting, words: setting.key }))
  return [...placed, { words: 'Others', settings: others }].filter(({ settings }) => settings.length > 0)
}
