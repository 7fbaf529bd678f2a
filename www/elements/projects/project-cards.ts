/* The cards of a project's settings: their fields, in their order. All words are English and passed to t(). Pure. */
import type { Check } from '../../../lib/model/policy.js'
import { fieldLabels } from '../../words/errors.js'
import type { Choice } from '../base/form.js'
import { clientScripts } from './project-fields.js'

/** Texts by the place of their field, as the server names it in errors: `name`, `policy.gate.interval`. */
export type Texts = Readonly<Record<string, string>>

/** The lists of a draft. Fields of other kinds of checks keep what was typed. */
export type ListName = 'checks' | 'allow' | 'freeze'

/** A check as texts, with its saved form: its fields that the card does not show stay. */
export interface CheckDraft {
  texts: Texts
  saved?: Check
}

/** The settings as texts. An empty text means the default. */
export interface Draft {
  texts: Texts
  checks: readonly CheckDraft[]
  allow: ReadonlyArray<{ texts: Texts }>
  freeze: ReadonlyArray<{ texts: Texts }>
}

/** A field of a card. All words are English and passed to t(). */
export interface Row {
  /** A place that begins with # is a choice of the form alone. */
  path: string
  words: string
  hint?: string
  placeholder?: string
  /** What is read from the text. Default: the text; an empty one means the default. */
  as?: 'number' | 'flag' | 'lines' | 'words'
  choices?: readonly Choice[]
  /** Number of lines of a text. */
  rows?: number
  isPlain?: true
  isRequired?: true
  proposals?: readonly string[]
  /** The part of the form that shows it, if it is no usual field. */
  part?: 'path' | 'category' | 'tags' | 'source' | ListName
  /** Label of the button that adds an item to a list. */
  add?: string
  /** Whether it is shown. Default: always. */
  when?: (draft: Draft) => boolean
}

/** A heading, with a hint below it. */
export interface Heading {
  heading: string
  hint?: string
  when?: (draft: Draft) => boolean
}

/** A row, rows beside each other, or a heading. */
export type Part = Row | readonly Row[] | Heading

/** A field of an item of a list. */
export type ItemField = Omit<Row, 'choices'> & { type?: 'date'; isOptional?: true }

const of = (path: string, rest: Omit<Row, 'path' | 'words'> = {}): Row => ({
  path,
  words: fieldLabels[path] as string,
  ...rest
})

const mayAsk = [
  { value: '', words: 'Only operators and the global deploy token can ask for it.' },
  { value: 'true', words: 'Deployers and the deploy token of the project can ask for it, too.' }
]
/** Whether a deployment succeeds only when more is good than its files and scripts. */
export const isChecked = (draft: Draft): boolean => draft.texts['#safety'] !== ''
/** Whether somebody confirms a deployment. */
export const isConfirmed = (draft: Draft): boolean => draft.texts['#safety'] === 'confirm'
/** Whether there are checks. */
export const hasChecks = (draft: Draft): boolean => isChecked(draft) && draft.checks.length > 0
/** Whether there are windows or freezes. */
export const hasWindows = ({ allow, freeze }: Draft): boolean => allow.length + freeze.length > 0
/** Whether releases come from one project only. */
export const isPromoted = (draft: Draft): boolean => draft.texts['#source'] === 'only'

const ofGate = (placeholder: string) => ({ as: 'number', placeholder, when: hasChecks }) as const

const checkRows: readonly Part[] = [
  {
    heading: 'Checks after a deployment',
    hint: 'All of them must pass after the files are in place.',
    when: isChecked
  },
  { path: 'policy.gate.after', words: 'Check', part: 'checks', add: 'Add check', when: isChecked },
  [
    { path: 'policy.gate.interval', words: 'Seconds between two attempts', ...ofGate('1') },
    { path: 'policy.gate.timeout', words: 'Seconds that one attempt may take', ...ofGate('5') },
    { path: 'policy.gate.deadline', words: 'Seconds until the checks must have passed', ...ofGate('30') },
    { path: 'policy.gate.successes', words: 'Attempts in a row that must pass', ...ofGate('2') },
    { path: 'policy.gate.stableFor', words: 'Seconds for which they must continue to pass', ...ofGate('0') }
  ],
  {
    path: 'policy.gate.onFailure',
    words: 'If a check fails',
    choices: [
      { value: '', words: 'The earlier files are put back.' },
      { value: 'keep', words: 'The new files stay.' }
    ],
    when: hasChecks
  }
]

const windowRows: readonly Part[] = [
  {
    heading: 'When deployments may begin',
    hint: 'At any time, unless there are windows. Nothing begins during a freeze. Deployments that go back always may.'
  },
  { path: 'policy.windows.allow', words: 'Window', part: 'allow', add: 'Add window' },
  { path: 'policy.windows.freeze', words: 'Freeze', part: 'freeze', add: 'Add freeze' },
  {
    path: 'policy.windows.tz',
    words: 'Time zone of the windows',
    placeholder: 'Europe/Berlin',
    proposals: ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Shanghai'],
    when: hasWindows
  }
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
        hint: 'The next deployment writes its files there. Files of earlier deployments are not moved.'
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
          as: 'number',
          placeholder: '1800',
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
        as: 'number',
        placeholder: '600',
        hint: 'Without a confirmation in this time, the earlier files are put back. From 10 seconds to one day.',
        when: isConfirmed
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
          as: 'number',
          placeholder: '0',
          when: isPromoted
        }
      ]
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
        { path: 'policy.rollout.canary', words: 'Nodes of the first wave', as: 'number', placeholder: '1' },
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
        { path: 'policy.rollout.maxFailures', words: 'Nodes that may fail', as: 'number', placeholder: '0' },
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
  'policy.rollout': 'Fleet'
}

/** The kinds of checks, each with its fields. */
export const checkKinds: Record<string, { words: string; fields: readonly ItemField[] }> = {
  http: {
    words: 'HTTP request',
    fields: [
      { path: 'http', words: 'Address', placeholder: 'http://127.0.0.1:3000/up' },
      { path: 'status', words: 'Accepted status codes', placeholder: '200-299', isOptional: true },
      { path: 'contains', words: 'Text that the answer must contain', isOptional: true }
    ]
  },
  tcp: { words: 'TCP connection', fields: [{ path: 'tcp', words: 'Host and port', placeholder: '127.0.0.1:5432' }] },
  command: {
    words: 'Command',
    fields: [{ path: 'command', words: 'Script that must succeed', placeholder: 'node check.js', rows: 2 }]
  },
  pm2: { words: 'PM2 application', fields: [] },
  log: {
    words: 'Lines of a log',
    fields: [
      { path: 'log', words: 'Id of the log file', placeholder: 'lsrc_1a2b3c4d5e6f7a8b' },
      { path: 'none', words: 'Expression that no new line may match', placeholder: '(?i)panic' },
      { path: 'for', words: 'Seconds', as: 'number', placeholder: '30' }
    ]
  }
}

/** The fields of a window and of a freeze. */
export const windowFields: Record<'allow' | 'freeze', readonly ItemField[]> = {
  allow: [
    { path: 'days', words: 'Days', placeholder: 'mon-thu', proposals: ['mon-fri', 'mon-thu', 'sat,sun'] },
    { path: 'from', words: 'Opens at', placeholder: '09:00' },
    { path: 'to', words: 'Closes at', placeholder: '16:00' }
  ],
  freeze: [
    { path: 'from', words: 'First day', type: 'date' },
    { path: 'to', words: 'Last day', type: 'date' },
    { path: 'reason', words: 'Reason', isPlain: true }
  ]
}

/** Returns the fields of a card. */
export function rowsOf(card: CardName): Row[] {
  return (cards[card].parts as readonly Part[]).flat().filter((part): part is Row => 'path' in part)
}
