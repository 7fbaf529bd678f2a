/* Entries of the audit log in words. Pure. */

import { type Change, changedValue, noValue, readChanges } from './shared/audit-changes.js'
import { fieldLabels, subjectWords } from './words/errors.js'
import { t } from './words/t.js'

/** Returns the detail of an audit entry on one line, with the labels of forms, translated except for data. */
export function detailWords(action: string, detail: string): string {
  const { subject, changes } = readChanges(detail)
  const parts = [subject === '' ? '' : subjectWords(action, subject), ...changes.map(changeWords)]
  return parts.filter(part => part !== '').join('; ')
}

/** Returns one change of an audit entry: the label of its field and its values. */
export function changeWords({ field, from, to }: Change): string {
  const values = from === null ? valueWords(to) : `${valueWords(from)} → ${valueWords(to)}`
  return `${changedField(field)}: ${values}`
}

/** Returns the label of a changed field, with its place in the record. */
export function changedField(field: string): string {
  return field
    .split('.')
    .map(part => t(fieldLabels[part] ?? part))
    .join(' › ')
}

/** Returns a value of a change; those that stand for something are translated. */
export function valueWords(value: string): string {
  return valueNames.has(value) ? t(value) : value
}

const valueNames: ReadonlySet<string> = new Set([noValue, changedValue, 'true', 'false', 'all', 'success', 'failed'])
