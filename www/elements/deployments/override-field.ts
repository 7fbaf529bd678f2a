import type { Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { field } from '../base/form.js'

/** Limit of the server, in characters. */
const maxOverride = 500

/** Returns the field for the reason why a deployment begins outside of the windows of its project. */
export function overrideField(form: string, onInput?: (value: string) => void): Template {
  return field({
    form,
    name: 'override',
    label: t('Why outside of the windows'),
    hint: t('The record and the audit log keep it. Without it, the deployment is refused until the next window.'),
    maxLength: maxOverride,
    ...(onInput !== undefined && { onInput })
  })
}
