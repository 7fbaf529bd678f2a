/*
 * A value of each field of a project that a client can set, and one that its rule refuses: the tests of every door through
 * which a project comes take them from here.
 */
import type { projectFields } from '../../lib/model/project-fields.js'

type Field = keyof typeof projectFields

interface Example {
  /** Not the default. */
  value: unknown
  wrong: unknown
  /** Who reads its texts (test/api/canary.test.ts), if it has any that a client chooses freely. */
  readers?: 'everybody' | 'scripts'
  /** What follows the name of the field when `wrong` is refused. */
  at?: string
}

const long = 'x'.repeat(100_001)

const examples: Readonly<Record<Field, Example>> = {
  name: { value: 'Shop', wrong: 'a\nb', readers: 'everybody' },
  deployPath: { value: '/srv/svc-test/example', wrong: 7, readers: 'everybody' },
  description: { value: 'Äpfel & Birnen', wrong: ['a'], readers: 'everybody' },
  env: { value: 'staging', wrong: 'x'.repeat(300), readers: 'everybody' },
  categoryId: { value: null, wrong: 7 },
  pm2AppName: { value: 'shop', wrong: ['shop'], readers: 'everybody' },
  tagIds: { value: [], wrong: { length: 1e9 } },
  preDeployScript: { value: 'true', wrong: long, readers: 'scripts' },
  postDeployScript: { value: 'npm start\n', wrong: long, readers: 'scripts' },
  postDeployAsync: { value: true, wrong: 'yes' },
  allowClientScripts: { value: true, wrong: 'yes' },
  allowedEnv: { value: ['APP_*'], wrong: ['*'], at: '[0]', readers: 'everybody' },
  runAs: { value: 'nobody', wrong: 7 },
  umask: { value: '027', wrong: 27 },
  scriptTimeoutSeconds: { value: 90, wrong: '90' },
  scriptShell: { value: 'bash', wrong: '../sh' },
  scriptDirectory: { value: 'apps/web', wrong: '../..', readers: 'everybody' },
  maxDiskMb: { value: 300, wrong: 0 },
  policy: { value: { drift: 'refuse', confirm: { seconds: 90 } }, wrong: { evil: 1 }, at: '.evil' },
  pinned: { value: true, wrong: 'yes' }
}

/** Every field that a client can set. */
export const exampleFields = Object.keys(examples) as Field[]

/** The readers of the texts of a project, by field; of a list, by `field[]`. */
export const textReaders: Readonly<Record<string, string>> = Object.fromEntries(
  exampleFields.flatMap(field => {
    const { value, readers } = examples[field]
    return readers === undefined ? [] : [[Array.isArray(value) ? `${field}[]` : field, readers]]
  })
)

/** Returns a value of each of these fields. */
export function exampleValues(fields: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(fields.map(field => [field, examples[field as Field].value]))
}

/** Returns records with one wrong field of these each, and how a refusal names it. */
export function wrongRecords(fields: readonly string[]): Array<[named: string, record: Record<string, unknown>]> {
  return fields.map(field => {
    const { wrong, at = '' } = examples[field as Field]
    return [`${field}${at}`, { [field]: wrong }]
  })
}
