/** The control that a form shows for a setting. */
export type SettingType = 'text' | 'secret' | 'number' | 'flag' | 'list'

/** The description of a setting, without its value (§2.7). */
export interface SettingDescription {
  key: string
  type: SettingType
  /** Unit of the value, or null. */
  unit: string | null
  default: string
  help: string
  /** The possible items of a list. */
  choices?: readonly string[]
}
