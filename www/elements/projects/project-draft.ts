/* The settings of a project as texts, and what the texts stand for. Pure. */
import type { Check } from '../../../lib/model/policy.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import { type CardName, cards, rowsOf } from './project-cards.js'
import {
  type CheckDraft,
  checkKinds,
  type Draft,
  hasChecks,
  hasWindows,
  isApproved,
  isChecked,
  isConfirmed,
  isPromoted,
  type ListName,
  type Row,
  windowFields
} from './safety-rows.js'

const allRows = (Object.keys(cards) as CardName[]).flatMap(rowsOf)

/** Values of a project by the name of their field. Those of its policy are `policy.<key>`. */
export type Values = Readonly<Record<string, unknown>>

/** Returns the values of a project. */
export function valuesOf(project: Pick<Project, 'policy'>): Values {
  const policy = Object.entries(project.policy).map(([key, value]) => [`policy.${key}`, value])
  return { ...project, ...Object.fromEntries(policy) }
}

/** Returns the value of a field as a text. */
export function textOf(value: unknown, as?: Row['as']): string {
  if (Array.isArray(value)) return value.join(as === 'lines' ? '\n' : ' ')
  return typeof value === 'object' && value !== null ? JSON.stringify(value, null, 2) : String(value ?? '')
}

/** Returns a project as texts. */
export function draftOf(project: Pick<Project, 'policy'>): Draft {
  const values = valuesOf(project)
  const { gate, confirm, onPostFailure, windows, promoteFrom, rollout, approval } = project.policy
  const texts = allRows.map(({ path, as }) => {
    const [first, key, inner] = path.split('.')
    const value = values[key === undefined ? (first as string) : `policy.${key}`]
    return [path, textOf(inner === undefined ? value : (value as Values | undefined)?.[inner], as)]
  })
  const pause = rollout?.pause ?? 0
  return {
    texts: {
      ...Object.fromEntries(texts),
      '#safety': confirm ? 'confirm' : gate || onPostFailure === 'revert' ? 'check' : '',
      '#source': promoteFrom ? 'only' : '',
      '#approval': approval ? 'needed' : '',
      // A role includes those above it: the lowest one says it.
      'policy.approval.roles':
        ['deployer', 'operator', 'admin'].find(role => approval?.roles.some(each => each === role)) ?? '',
      '#pause': pause === 'approve' ? pause : pause === 0 ? '' : 'seconds',
      'policy.rollout.pause': typeof pause === 'number' && pause > 0 ? String(pause) : ''
    },
    checks: gate?.after.map(checkDraft) ?? [],
    allow: (windows?.allow ?? []).map(item => ({ texts: { ...item } })),
    freeze: (windows?.freeze ?? []).map(item => ({ texts: { ...item } }))
  }
}

function checkDraft(saved: Check): CheckDraft {
  const texts = Object.entries(saved).map(([name, value]) => [name, textOf(value)])
  const kind = Object.keys(checkKinds).find(name => name in saved) ?? 'http'
  return { texts: { ...Object.fromEntries(texts), kind }, saved }
}

function checkOf({ texts, saved }: CheckDraft): Values {
  const { kind = 'http' } = texts
  if (kind === 'pm2') return { pm2: 'online' }
  const fields = checkKinds[kind]?.fields ?? []
  const given = fields.map(({ path, as, isOptional }) => {
    const text = texts[path] ?? ''
    return [path, text === '' && isOptional ? undefined : valueOf(text, as)]
  })
  return { ...(saved !== undefined && kind in saved && saved), ...Object.fromEntries(given) }
}

/** Returns what a text stands for. The server checks it: a number that is none is sent as it was typed. */
function valueOf(text: string, as?: Row['as']): unknown {
  if (as === 'number') return Number.isNaN(Number(text)) ? text : Number(text)
  if (as === 'flag') return text === 'true'
  if (as === 'words') return text.split(/[\s,]+/).filter(Boolean)
  if (as !== 'lines') return text
  const lines = text.split('\n').map(line => line.trim())
  return lines.filter(Boolean)
}

/** What is set only under a condition. */
const isSet: Readonly<Record<string, (draft: Draft, given: unknown) => boolean>> = {
  'policy.gate': hasChecks,
  'policy.confirm': isConfirmed,
  'policy.onPostFailure': isChecked,
  'policy.windows': hasWindows,
  'policy.promoteFrom': isPromoted,
  'policy.approval': isApproved,
  'policy.rollout': (_, given) => Object.keys(given as object).length > 0
}

/** Returns the values of a card by the names of their fields, with null for defaults. */
export function givenOf(card: CardName, draft: Draft): Values {
  const given: Record<string, unknown> = {}
  const lists = {
    checks: draft.checks.map(checkOf),
    allow: draft.allow.map(({ texts }) => texts),
    freeze: draft.freeze.map(({ texts }) => texts)
  }
  for (const { path, as, part, rows } of rowsOf(card)) {
    const [name = '', key, inner] = path.split('.')
    if (name.startsWith('#')) continue
    const typed = draft.texts[path] ?? ''
    const text = rows === undefined ? typed.trim() : typed
    const value = part !== undefined && part in lists ? lists[part as ListName] : text === '' ? null : valueOf(text, as)
    // An empty environment means the one that there is.
    if (name === 'env' && value === null) continue
    if (key === undefined) given[name] = value ?? emptyOf(as)
    else if (inner === undefined) given[`policy.${key}`] = value
    else given[`policy.${key}`] = { ...(given[`policy.${key}`] as object), ...(value !== null && { [inner]: value }) }
  }
  if (card === 'fleet' && draft.texts['#pause'] !== 'seconds') {
    const { pause: _, ...rollout } = given['policy.rollout'] as Values
    given['policy.rollout'] = draft.texts['#pause'] === 'approve' ? { ...rollout, pause: 'approve' } : rollout
  }
  for (const [name, holds] of Object.entries(isSet)) if (name in given && !holds(draft, given[name])) given[name] = null
  return given
}

/** Returns the value of a field of a project that was emptied. */
function emptyOf(as: Row['as']): unknown {
  return as === 'words' ? [] : as === undefined ? '' : null
}

/** Returns the fields of a request that sets values. */
export function fieldsOf(values: Values): object {
  const isOfPolicy = ([name]: [string, unknown]): boolean => name.startsWith('policy.')
  const all = Object.entries(values)
  const policy = all.filter(isOfPolicy).map(([name, value]) => [name.slice('policy.'.length), value])
  const others = Object.fromEntries(all.filter(each => !isOfPolicy(each)))
  return policy.length === 0 ? others : { ...others, policy: Object.fromEntries(policy) }
}

/** Returns the draft after a text was changed. A choice of a way to succeed fills in what it needs. */
export function changed(draft: Draft, path: string, text: string): Draft {
  const next: Draft = { ...draft, texts: { ...draft.texts, [path]: text } }
  if (path !== '#safety' || text === '') return next
  const { texts } = next
  return {
    ...(text === 'check' && next.checks.length === 0 ? added(next, 'checks') : next),
    texts: {
      ...texts,
      'policy.onPostFailure': draft.texts['#safety'] === '' ? 'revert' : (texts['policy.onPostFailure'] as string),
      'policy.confirm.seconds': texts['policy.confirm.seconds'] || (text === 'confirm' ? '600' : '')
    }
  }
}

/** Returns the draft with an empty item in a list. The first window is in the time zone of this browser. */
export function added(draft: Draft, list: ListName): Draft {
  const fields = list === 'checks' ? [] : windowFields[list]
  const texts = {
    ...(list === 'checks' && { kind: 'http' }),
    ...Object.fromEntries(fields.map(({ path }) => [path, '']))
  }
  const tz = draft.texts['policy.windows.tz'] || new Intl.DateTimeFormat().resolvedOptions().timeZone
  return {
    ...draft,
    [list]: [...draft[list], { texts }],
    ...(list !== 'checks' && { texts: { ...draft.texts, 'policy.windows.tz': tz } })
  }
}
