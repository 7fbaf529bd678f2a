import type { Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { field } from '../base/field.js'

/**
 * Returns the field for a code of an authenticator. `isNew`: the second factor is not confirmed yet, so it has no
 * recovery codes.
 */
export function codeField({
  form,
  error,
  isNew = false
}: {
  form: string
  error?: string | undefined
  isNew?: boolean
}): Template {
  return field({
    form,
    name: 'code',
    label: t('Code'),
    hint: isNew
      ? t('The six digits that your authenticator shows now.')
      : t('The six digits of your authenticator, or a recovery code.'),
    error,
    autocomplete: 'one-time-code',
    maxLength: 100,
    isMono: true,
    isRequired: true,
    hasFocus: true
  })
}
