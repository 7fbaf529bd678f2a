/* The cards of a project's settings: their fields as texts, and what these stand for. Words pass through t(). Pure. */
import type { Check } from '../../../lib/model/policy.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import { fieldLabels } from '../../words/t.js'
import { clientScripts } from './project-fields.js'
import {
  approvalRows,
  type CheckDraft,
  checkKinds,
  checkRows,
  type Draft,
  hasChecks,
  hasWindows,
  isApproved,
  isChecked,
  isConfirmed,
  isPromoted,
  type ListName,
  number,
  type Part,
  type Row,
  signatureRows,
  usualSignatures,
  windowFields,
  windowRows
} from './safety-rows.js'

const of = (path: string, rest: Omit<Row, 'path' | 'words'> = {}): Row => ({
  path,
  words: fieldLabels[path] as string,
  ...rest
})

const mayAsk = [
  { value: '', words: 'Only operators and the global deploy token can ask for it.' },
  { value: 'true', words: 'Deployers and the deploy token of the project can ask for it, too.' }
]
/** The cards of the form, in their order. */
export const cards = {
  general: {
    words: 'General',
    parts: [
      [of('name', { isPlain: true, isRequired: true }), of('env', { isPlain: true, placeholder: 'production' })],
      of('description', { isPlain: true }),
      of('deployPath', {
        part: 'path',
        hint: 'The next deployment writes its files there. Files of earlier deployments are not moved, and nodes keep their directories.'
      }),
      [
        of('categoryId', { part: 'category' }),
        of('pm2AppName', {
          isPlain: true,
          hint: 'Its state is shown on the project page. Leave empty if there is none.'
        })
      ],
      of('tagIds', { as: 'words', part: 'tags' }),
      of('maxDiskMb', {
        as: 'number',
        hint: 'For the archives and outputs of this project. A push that exceeds it is rejected. If empty, the project has no quota.'
      })
    ]
  },
  scripts: {
    words: 'Scripts',
    parts: [
      of('preDeployScript', {
        rows: 4,
        hint: 'Runs in the project directory before files are replaced. If it fails, no file is replaced.'
      }),
      of('postDeployScript', {
        rows: 4,
        placeholder: 'systemctl restart storefront',
        hint: 'Runs in the project directory after files are replaced. A script set here overrides the script of a push.'
      }),
      {
        path: 'postDeployAsync',
        words: 'The end of a deployment',
        as: 'flag',
        choices: [
          { value: 'false', words: 'It waits for the post-deploy script, and fails with it.' },
          { value: 'true', words: 'It does not wait for the post-deploy script.' }
        ]
      },
      {
        path: 'policy.onFailureScript',
        words: 'On-failure script',
        rows: 3,
        placeholder: './report.sh',
        hint: 'Runs after a deployment has failed or was reverted. It changes no result.'
      },
      of('allowClientScripts', { as: 'flag', choices: clientScripts }),
      of('allowedEnv', {
        as: 'words',
        placeholder: 'NODE_ENV APP_*',
        hint: 'If pushes with scripts are rejected, only these variables of a push are passed to the scripts set here. Enter names, or prefixes followed by *.'
      }),
      [
        of('scriptShell', {
          placeholder: 'sh',
          proposals: ['sh', 'bash'],
          hint: 'sh, bash, or the path of a program that accepts a script with -c. Default: sh.'
        }),
        of('scriptTimeoutSeconds', {
          ...number('1800'),
          hint: 'After this time, the script is stopped and the deployment fails. If empty, the server setting applies.'
        })
      ],
      of('scriptDirectory', {
        placeholder: 'apps/web',
        hint: 'Relative to the project directory, which is the default. Before the first deployment creates it, the pre-deploy script runs in the project directory.'
      })
    ]
  },
  safety: {
    words: 'Safety',
    parts: [
      {
        path: '#safety',
        words: 'When a deployment succeeds',
        choices: [
          {
            value: '',
            words: 'Replace files',
            hint: 'It succeeds when its files are in place and its scripts have ended.'
          },
          {
            value: 'check',
            words: 'Check, and go back by itself',
            hint: 'Checks run after the files are in place. If one fails, the earlier files are put back.'
          },
          {
            value: 'confirm',
            words: 'A person confirms',
            hint: 'It also waits for a person. Without a confirmation in time, the earlier files are put back.'
          }
        ]
      },
      {
        path: 'policy.confirm.seconds',
        words: 'Seconds until a deployment must be confirmed',
        ...number('600', isConfirmed),
        hint: 'Without a confirmation in this time, the earlier files are put back. From 10 seconds to one day.'
      },
      ...checkRows,
      {
        path: 'policy.onPostFailure',
        words: 'If the post-deploy script fails',
        choices: [
          { value: '', words: 'The new files stay.' },
          { value: 'revert', words: 'The earlier files are put back.' }
        ],
        when: isChecked
      },
      {
        path: 'policy.revertScript',
        words: 'After the earlier files are back',
        choices: [
          { value: '', words: 'The post-deploy script runs again.' },
          { value: 'none', words: 'Nothing runs.' }
        ],
        when: isChecked
      },
      { heading: 'The way back' },
      {
        path: 'policy.rollback',
        words: 'A rollback',
        choices: [
          { value: '', words: 'It puts the files of an archive over the others.' },
          { value: 'exact', words: 'It restores the earlier state exactly.' }
        ]
      },
      {
        path: 'policy.exact',
        words: 'If replaced files are too large to be kept',
        choices: [
          { value: '', words: 'The deployment begins all the same. It cannot be undone exactly.' },
          { value: 'required', words: 'The deployment is refused.' }
        ]
      },
      ...windowRows,
      { heading: 'Where releases come from' },
      {
        path: '#source',
        words: 'Releases of this project',
        choices: [
          { value: '', words: 'They come from pushes, and from any project.' },
          { value: 'only', words: 'They come only from another project, where they have been live for a time.' }
        ]
      },
      [
        { path: 'policy.promoteFrom.projectId', words: 'Project', part: 'source', when: isPromoted },
        {
          path: 'policy.promoteFrom.soakMinutes',
          words: 'Minutes for which they must have been live there',
          ...number('0', isPromoted)
        }
      ],
      ...approvalRows,
      ...signatureRows
    ]
  },
  files: {
    words: 'Files',
    parts: [
      {
        path: 'policy.drift',
        words: 'Files that were edited in the target',
        choices: [
          { value: '', words: 'A deployment warns about them and replaces them.' },
          { value: 'refuse', words: 'A deployment is refused.' },
          { value: 'off', words: 'A deployment replaces them without a warning.' }
        ]
      },
      {
        path: 'policy.forceByDeployToken',
        words: 'Replacing edited files with a push (--force)',
        as: 'flag',
        choices: mayAsk
      },
      {
        path: 'policy.prune',
        words: 'Files of earlier deployments that a new one does not contain',
        choices: [
          { value: '', words: 'They stay.' },
          { value: 'managed', words: 'They are removed, unless somebody edited them.' }
        ]
      },
      { path: 'policy.pruneByDeployToken', words: 'Removing files with a push (--prune)', as: 'flag', choices: mayAsk },
      {
        path: 'policy.protect',
        words: 'Paths that are never removed',
        as: 'lines',
        rows: 3,
        placeholder: 'uploads/**',
        hint: 'One pattern per line.'
      },
      { heading: 'Rights' },
      [
        of('runAs', {
          placeholder: 'www-data',
          hint: 'Scripts run and files are written with the rights of this user. Requires svc to run as root. Default: the user of svc.'
        }),
        of('umask', {
          placeholder: '027',
          hint: 'Three octal digits. Applies to deployed files and to files that scripts create. Default: the umask of svc.'
        })
      ],
      [
        {
          path: 'policy.fileMode',
          words: 'Permissions of files',
          placeholder: '0644',
          hint: 'Executable files get x for each r. Empty: as in the archive.'
        },
        {
          path: 'policy.directoryMode',
          words: 'Permissions of directories',
          placeholder: '0755',
          hint: 'Of those that svc makes. Others keep theirs.'
        },
        {
          path: 'policy.group',
          words: 'Group of files and directories',
          placeholder: 'www-data',
          hint: 'A name or a number. Empty: that of the user that svc runs as.'
        }
      ],
      { heading: 'Maintenance' },
      [
        { path: 'policy.maintenanceFile', words: 'Maintenance file', placeholder: '.maintenance' },
        {
          path: 'policy.maintenancePage',
          words: 'Maintenance page',
          placeholder: 'maintenance.html',
          hint: 'A file of the target. The maintenance file gets its contents.'
        }
      ]
    ]
  },
  fleet: {
    words: 'Fleet',
    parts: [
      [
        { path: 'policy.rollout.canary', words: 'Nodes of the first wave', ...number('1') },
        {
          path: 'policy.rollout.then',
          words: 'Nodes of each further wave',
          placeholder: '25%',
          hint: 'A number or a percentage of all nodes.'
        }
      ],
      {
        path: '#pause',
        words: 'Between two waves',
        choices: [
          { value: '', words: 'The next wave begins at once.' },
          { value: 'seconds', words: 'The next wave begins after a time.' },
          { value: 'approve', words: 'Somebody approves each further wave.' }
        ]
      },
      {
        path: 'policy.rollout.pause',
        words: 'Seconds between two waves',
        as: 'number',
        placeholder: '60',
        when: ({ texts }) => texts['#pause'] === 'seconds'
      },
      [
        { path: 'policy.rollout.maxFailures', words: 'Nodes that may fail', ...number('0') },
        {
          path: 'policy.rollout.maxUnreachable',
          words: 'Nodes that may be unreachable',
          placeholder: '0',
          hint: 'A number or a percentage of all nodes.'
        }
      ],
      {
        path: 'policy.rollout.onFailure',
        words: 'If more nodes fail or are unreachable',
        choices: [
          { value: '', words: 'The rollout halts: no other node begins.' },
          { value: 'revert_wave', words: 'The nodes of the wave are reverted.' },
          { value: 'revert_all', words: 'All nodes are reverted.' }
        ]
      },
      { path: 'policy.rollout.order', words: 'Label that sorts the nodes into waves', placeholder: 'zone' }
    ]
  }
} as const satisfies Record<string, { words: string; parts: readonly Part[] }>

/** A card that is saved. */
export type CardName = keyof typeof cards

/** What the objects of a policy are called. */
export const policyWords: Readonly<Record<string, string>> = {
  'policy.gate': 'Checks after a deployment',
  'policy.confirm': 'A person confirms',
  'policy.windows': 'When deployments may begin',
  'policy.promoteFrom': 'Where releases come from',
  'policy.approval': 'Who approves',
  'policy.signatures': 'Who signs',
  'policy.rollout': 'Fleet'
}

/** Returns the fields of a card. */
export function rowsOf(card: CardName): Row[] {
  return (cards[card].parts as readonly Part[]).flat().filter((part): part is Row => 'path' in part)
}

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
  const { gate, confirm, onPostFailure, windows, promoteFrom, rollout, approval, signatures } = project.policy
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
      // The policy is stored with its defaults, which are an empty text here.
      ...usualSignatures(signatures),
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
  'policy.signatures': (_, given) => Object.keys(given as object).length > 0,
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
