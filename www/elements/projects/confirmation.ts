import type { Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { field } from '../base/field.js'

/** Returns the field in which the user types a name to confirm a deletion. It submits `confirmation`. */
export function confirmation(form: string, name: string): Template {
  const label = t('Type “{name}” to confirm', { name })
  return field({ form, name: 'confirmation', label, isRequired: true, hasFocus: true })
}
