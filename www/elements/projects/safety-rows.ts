/* The rows of a card, and those of checks, windows and approvals. All words are English and passed to t(). Pure. */
import type { Check, SignaturePolicy } from '../../../lib/model/policy.js'
import type { Choice } from '../base/form.js'

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

/** Whether a deployment succeeds only when more is good than its files and scripts. */
export const isChecked = (draft: Draft): boolean => draft.texts['#safety'] !== ''
/** Whether somebody confirms a deployment. */
export const isConfirmed = (draft: Draft): boolean => draft.texts['#safety'] === 'confirm'
export const hasChecks = (draft: Draft): boolean => isChecked(draft) && draft.checks.length > 0
/** Whether there are windows or freezes. */
export const hasWindows = ({ allow, freeze }: Draft): boolean => allow.length + freeze.length > 0
/** Whether others approve a deployment. */
export const isApproved = (draft: Draft): boolean => draft.texts['#approval'] !== ''
/** Whether releases need signatures. */
export const isSigned = (draft: Draft): boolean => (draft.texts['policy.signatures.require'] ?? '') !== ''
/** Whether releases come from one project only. */
export const isPromoted = (draft: Draft): boolean => draft.texts['#source'] === 'only'

/** Completes a row with a number. `placeholder`: its default. */
export const number = (placeholder: string, when: (draft: Draft) => boolean = () => true) =>
  ({ as: 'number', placeholder, when }) as const

export const checkRows: readonly Part[] = [
  {
    heading: 'Checks after a deployment',
    hint: 'All of them must pass after the files are in place.',
    when: isChecked
  },
  { path: 'policy.gate.after', words: 'Check', part: 'checks', add: 'Add check', when: isChecked },
  [
    { path: 'policy.gate.interval', words: 'Seconds between two attempts', ...number('1', hasChecks) },
    { path: 'policy.gate.timeout', words: 'Seconds that one attempt may take', ...number('5', hasChecks) },
    { path: 'policy.gate.deadline', words: 'Seconds until the checks must have passed', ...number('30', hasChecks) },
    { path: 'policy.gate.successes', words: 'Attempts in a row that must pass', ...number('2', hasChecks) },
    { path: 'policy.gate.stableFor', words: 'Seconds for which they must continue to pass', ...number('0', hasChecks) }
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

export const windowRows: readonly Part[] = [
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

export const approvalRows: readonly Part[] = [
  { heading: 'Who approves' },
  {
    path: '#approval',
    words: 'Before a deployment begins',
    choices: [
      { value: '', words: 'Nobody needs to approve it.' },
      { value: 'needed', words: 'Others approve its files.', hint: 'Deployments that go back need nobody.' }
    ]
  },
  {
    path: 'policy.approval.roles',
    words: 'It is approved by',
    as: 'words',
    choices: [
      { value: 'operator', words: 'Operators and admins.' },
      { value: 'deployer', words: 'Deployers, operators and admins.' },
      { value: 'admin', words: 'Admins only.' }
    ],
    when: isApproved
  },
  {
    path: 'policy.approval.notPusher',
    words: 'The person who pushed it',
    as: 'flag',
    choices: [
      { value: 'true', words: 'Cannot approve it.' },
      { value: 'false', words: 'Can approve it, too.' }
    ],
    when: isApproved
  },
  [
    { path: 'policy.approval.count', words: 'Approvals that are needed', ...number('1', isApproved) },
    { path: 'policy.approval.hours', words: 'Hours until it fails without a decision', ...number('24', isApproved) }
  ]
]

export const signatureRows: readonly Part[] = [
  { heading: 'Who signs' },
  {
    path: 'policy.signatures.require',
    words: 'A release without the signatures that it needs',
    choices: [
      { value: '', words: 'It is deployed: releases need no signature.' },
      { value: 'warn', words: 'It is deployed, with a warning in its output.' },
      { value: 'refuse', words: 'It is refused.' }
    ]
  },
  [
    { path: 'policy.signatures.threshold', words: 'Keys that must have signed', ...number('1', isSigned) },
    {
      path: 'policy.signatures.keys',
      words: 'Ids of the keys',
      as: 'words',
      placeholder: 'key_1a2b3c4d5e6f7a8b',
      hint: 'Empty: each key that may sign for this project.',
      when: isSigned
    }
  ],
  {
    path: 'policy.signatures.rollbackBySignature',
    words: 'Going back to a release that was signed earlier',
    choices: [
      { value: '', words: 'It is allowed.' },
      { value: 'refuse', words: 'It is refused: only later releases are deployed.' }
    ],
    when: isSigned
  },
  {
    path: 'policy.signatures.sbom',
    words: 'The list of components (SBOM) of a release',
    choices: [
      { value: '', words: 'It is not needed.' },
      { value: 'require', words: 'A push without it is refused.' }
    ]
  }
]

const noSignatures: SignaturePolicy = {
  require: 'off',
  threshold: 1,
  keys: null,
  sbom: 'off',
  rollbackBySignature: 'allow'
}

/** Returns the empty texts of what is usual in a policy of signatures. */
export function usualSignatures(given: Partial<SignaturePolicy> | undefined): Texts {
  const same = Object.entries(noSignatures).filter(([key, value]) => given?.[key as keyof SignaturePolicy] === value)
  return Object.fromEntries(same.map(([key]) => [`policy.signatures.${key}`, '']))
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
      { path: 'for', words: 'Seconds', ...number('30') }
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
