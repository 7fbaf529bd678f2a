import type { SettingDescription } from '../../lib/model/setting.js'

/* How the settings are laid out: what each is called, and beside which others it stands. Pure. */

export interface SettingGroup {
  /** English; said by t(). */
  words: string
  rows: ReadonlyArray<{ key: string; words: string }>
}

/** Names and order; what a setting is comes from the server. */
export const settingGroups: readonly SettingGroup[] = [
  {
    words: 'Notifications',
    rows: [
      { key: 'webhook_url', words: 'Address' },
      { key: 'webhook_events', words: 'Events' },
      { key: 'webhook_secret', words: 'Secret' }
    ]
  },
  {
    words: 'Deployments',
    rows: [
      { key: 'default_deploy_path', words: 'Directory proposed for new projects' },
      { key: 'global_deploy_token', words: 'Global deploy token' },
      { key: 'allow_client_scripts', words: 'Pushes may bring scripts' },
      { key: 'durable_targets', words: 'Safe from a power cut' },
      { key: 'script_timeout', words: 'Time for a script' },
      { key: 'max_upload_size', words: 'Largest archive' },
      { key: 'max_extracted_size', words: 'Largest archive, unpacked' },
      { key: 'keep_archives', words: 'Archives kept' },
      { key: 'max_output_size', words: 'Output kept of a deployment' },
      { key: 'max_home_size', words: 'Size of the data directory' },
      { key: 'commit_url', words: 'Page of a commit' }
    ]
  },
  {
    words: 'Access',
    rows: [
      { key: 'allowed_ips', words: 'Addresses that may deploy' },
      { key: 'trusted_proxies', words: 'Trusted proxies' },
      { key: 'allowed_hosts', words: 'Host names of the panel' },
      { key: 'terminal_enabled', words: 'Terminal' },
      { key: 'metrics_token', words: 'Token for metrics' },
      { key: 'audit_days', words: 'Audit log kept' }
    ]
  }
]

/** What the form calls each setting; English, said by t(). */
export const settingLabels: Readonly<Record<string, string>> = Object.fromEntries(
  settingGroups.flatMap(({ rows }) => rows.map(({ key, words }) => [key, words]))
)

export interface NamedSetting extends SettingDescription {
  /** English; said by t(). */
  words: string
}

/** The settings that the server has, in their groups; those that have no place get one of their own, by their keys. */
export function groupSettings(settings: readonly SettingDescription[]): Array<{ words: string; settings: NamedSetting[] }> {
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
