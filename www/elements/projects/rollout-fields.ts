import { html, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import type { Submission } from '../base/submission.js'
import { field } from '../base/field.js'
import type { Choice } from './policy-words.js'
import type { RolloutDraft, RolloutField } from './rollout-form.js'

/* The fields of a policy of rollouts. All `words` are English and passed to t(). */

const pauses: readonly Choice[] = [
  { value: '', words: 'None (default)' },
  { value: 'seconds', words: 'A time' },
  { value: 'approve', words: 'An approval by hand' }
]
const failures: readonly Choice[] = [
  { value: '', words: 'Halt: no other node begins (default)' },
  { value: 'halt', words: 'Halt: no other node begins' },
  { value: 'revert_wave', words: 'Revert the nodes of the wave' },
  { value: 'revert_all', words: 'Revert all nodes' }
]
const texts: Record<
  Exclude<RolloutField, 'pause' | 'onFailure'>,
  { words: string; fallback: string; type: 'number' | 'text'; isShare?: true }
> = {
  canary: { words: 'Nodes of the first wave', fallback: '1', type: 'number' },
  then: { words: 'Nodes of each further wave', fallback: '25%', type: 'text', isShare: true },
  pauseSeconds: { words: 'Seconds between two waves', fallback: '60', type: 'number' },
  maxFailures: { words: 'Nodes that may fail', fallback: '0', type: 'number' },
  maxUnreachable: { words: 'Nodes that may be unreachable', fallback: '0', type: 'text', isShare: true },
  order: { words: 'Label that sorts the nodes into waves', fallback: 'zone', type: 'text' }
}

/** Where the server finds the texts. */
const places: Partial<Record<RolloutField, string>> = { pauseSeconds: 'policy.rollout.pause' }
const placeOf = (name: RolloutField): string => places[name] ?? `policy.rollout.${name}`

/** What the fields need. */
export interface RolloutFieldsNeeds {
  draft: RolloutDraft
  submission: Pick<Submission, 'problemAt'>
  onChange: (patch: Partial<RolloutDraft>) => void
}

/** Returns whether the server refused one of the fields. */
export function hasRolloutProblem(submission: Pick<Submission, 'problemAt'>): boolean {
  return (Object.keys(texts) as RolloutField[]).some(name => submission.problemAt(placeOf(name), '') !== undefined)
}

/** Returns the fields. */
export function rolloutFields({ draft, submission, onChange }: RolloutFieldsNeeds): Template {
  const text = (name: keyof typeof texts): Template =>
    field({
      form: 'rollout',
      name,
      label: t(texts[name].words),
      value: draft[name],
      type: texts[name].type,
      placeholder: texts[name].fallback,
      ...(texts[name].isShare === true && { hint: t('A number or a percentage of all nodes.') }),
      error: submission.problemAt(placeOf(name), texts[name].words),
      onInput: value => onChange({ [name]: value })
    })
  const choice = (name: 'pause' | 'onFailure', label: string, rows: readonly Choice[]): Template => html`
    <div class="field">
      <label for="rollout-${name}">${label}</label>
      <select id="rollout-${name}" @change="${(event: Event) => onChange({ [name]: (event.currentTarget as HTMLSelectElement).value })}">
        ${rows.map(({ value, words }) => html`<option value="${value}" .selected="${value === draft[name]}">${t(words)}</option>`)}
      </select>
    </div>`
  return html`
    <header><h3>${t('Rollout to nodes')}</h3></header>
    <div class="pair">${text('canary')}${text('then')}</div>
    <div class="pair">${choice('pause', t('Between two waves'), pauses)}${draft.pause === 'seconds' ? text('pauseSeconds') : null}</div>
    <div class="pair">${text('maxFailures')}${text('maxUnreachable')}</div>
    <div class="pair">${choice('onFailure', t('If more nodes fail or are unreachable'), failures)}${text('order')}</div>`
}
