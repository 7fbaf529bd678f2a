/* The cards of a project's settings: their fields, in their order. All words are English and passed to t(). Pure. */
import { fieldLabels } from '../../words/errors.js'
import { clientScripts } from './project-fields.js'
import {
  approvalRows,
  checkRows,
  isChecked,
  isConfirmed,
  isPromoted,
  number,
  type Part,
  type Row,
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
      ...approvalRows
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
  'policy.rollout': 'Fleet'
}

/** Returns the fields of a card. */
export function rowsOf(card: CardName): Row[] {
  return (cards[card].parts as readonly Part[]).flat().filter((part): part is Row => 'path' in part)
}
