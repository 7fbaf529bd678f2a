/** Which control a form shows. */
export type SettingType = 'text' | 'secret' | 'number' | 'flag' | 'list'

/** What is to be known of a setting, apart from its value (§2.7). */
export interface SettingDescription {
  key: string
  type: SettingType
  /** In English, as docs/settings.md has it. */
  unit: string | null
  default: string
  help: string
  /** Of a list: the only items that it takes. */
  choices?: readonly string[]
}
