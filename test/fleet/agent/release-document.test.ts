import t from 'tap'
import { readReleaseDocument } from '../../../lib/fleet/agent/release-document.js'
import { defaultGate } from '../../../lib/model/gate.js'
import { defaultRolloutPolicy } from '../../../lib/model/rollout.js'
import { createRandom, type Random } from '../../support/random.js'
import { releaseDocument } from '../../support/release-document.js'
import { firstSeed } from '../../support/thorough.js'

const read = (value: unknown) => readReleaseDocument(JSON.stringify(value))

/** Returns the message with which a document is refused. */
function refusalOf(value: unknown): string {
  try {
    read(value)
  } catch (error) {
    if ((error as { code?: string }).code === 'wrong_release') return (error as Error).message
    throw error
  }
  throw new Error('The document is not refused')
}

/** A document with a value in every field. */
const full = releaseDocument({
  policy: {
    drift: 'refuse',
    gate: {
      ...defaultGate,
      after: [{ http: 'https://shop.example/', header: { Accept: 'text/html' } }, { tcp: 'db:5432' }]
    },
    confirm: { seconds: 90 },
    protect: ['uploads/**'],
    prune: 'managed'
  },
  project: {
    description: 'The shop',
    preDeployScript: 'true',
    postDeployScript: 'npm start\n',
    postDeployAsync: false,
    allowClientScripts: true,
    allowedEnv: ['APP_*'],
    runAs: null,
    umask: '022',
    scriptTimeoutSeconds: 60,
    scriptShell: 'bash',
    scriptDirectory: 'app',
    maxDiskMb: 100,
    pm2AppName: null
  },
  variables: [
    { name: 'KEY', value: 'secret\nof two lines', secret: true },
    { name: 'EMPTY', value: '', secret: false }
  ],
  offered: { origin: 'source deployment', preDeploy: 'a', postDeploy: 'b', postDeployAsync: true },
  clientEnv: { APP_A: '1', 'not-a-name': 'x' },
  message: 'Fix the basket'
})

t.test('a release is read with all its fields, and with the fewest', async t => {
  t.strictSame(read(full), full)
  t.strictSame(read(releaseDocument()), releaseDocument())
})

t.test('what a later hub adds is dropped if it informs, and refused if it demands', async t => {
  const more = { ...full, signedOff: 'by Ann', variables: full.variables.map(each => ({ ...each, since: '2026' })) }
  t.strictSame(read(more), full)
  t.strictSame(read({ ...full, policy: { ...full.policy, rollout: defaultRolloutPolicy } }).policy, full.policy)
  t.strictSame(read({ ...full, policy: { ...full.policy, rollout: { later: 1 } } }).policy, full.policy)
  t.strictSame(read({ ...full, project: { ...full.project, jail: null, sandbox: '', sealed: false } }), full)
  for (const [field, value] of [
    ['policy.freeze', { ...full, policy: { freeze: true } }],
    ['policy.gate.after[0].grpc', { ...full, policy: { gate: { after: [{ http: 'https://a/', grpc: 1 }] } } }],
    ['policy.confirm.by', { ...full, policy: { confirm: { seconds: 9, by: 'ann' } } }],
    ['project.sandbox', { ...full, project: { sandbox: 'strict' } }],
    ['offered.duringDeploy', { ...full, offered: { origin: 'upload', duringDeploy: 'x' } }],
    ['dryRun', { ...full, dryRun: true }]
  ] as const)
    t.throws(() => read(value), { code: 'wrong_release', message: /upgrade svc on this node/ }, field)
  t.throws(() => read({ ...full, project: { sandbox: 'strict' } }), { message: /"release.project.sandbox" is unknown/ })
})

t.test('a field that is missing, of another type or beyond its limit is refused by its name', async t => {
  const long = (length: number) => 'x'.repeat(length)
  const variables = (more: object) => [{ name: 'A', value: 'abcdef', secret: false, ...more }]
  for (const [field, more] of [
    ['deployId', { deployId: '' }],
    ['projectName', { projectName: 'a\nb' }],
    ['deployPath', { deployPath: undefined }],
    ['archiveBytes', { archiveBytes: -1 }],
    ['fileCount', { fileCount: '3' }],
    ['policy', { policy: undefined }],
    ['policy', { policy: [] }],
    ['policy.drift', { policy: { drift: 'dance' } }],
    ['policy.gate.after', { policy: { gate: { after: 'x' } } }],
    ['project', { project: 'x' }],
    ['project.scriptTimeoutSeconds', { project: { scriptTimeoutSeconds: '3' } }],
    ['project.allowClientScripts', { project: { allowClientScripts: 'yes' } }],
    ['project.preDeployScript', { project: { preDeployScript: long(100_001) } }],
    ['project.allowedEnv[0]', { project: { allowedEnv: ['PATH'] } }],
    ['project.scriptDirectory', { project: { scriptDirectory: '../..' } }],
    ['variables', { variables: {} }],
    ['variables', { variables: Array.from({ length: 201 }, () => variables({})[0]) }],
    ['variables[0].name', { variables: variables({ name: 'LD_PRELOAD' }) }],
    ['variables[0].value', { variables: variables({ value: 7 }) }],
    ['variables[0].secret', { variables: variables({ secret: undefined }) }],
    ['offered.origin', { offered: {} }],
    ['offered.preDeploy', { offered: { origin: 'upload', preDeploy: ['rm'] } }],
    ['clientEnv.A=B', { clientEnv: { 'A=B': 'x' } }],
    ['clientEnv.A', { clientEnv: { A: { toString: 'x' } } }],
    ['clientEnv', { clientEnv: Object.fromEntries(Array.from({ length: 1001 }, (_, at) => [`A${at}`, ''])) }],
    ['message', { message: long(10_001) }]
  ] as const)
    t.match(refusalOf({ ...full, ...more }), `"release.${field}"`)
  for (const text of ['', '{', 'null', '[]', '"x"'])
    t.throws(() => readReleaseDocument(text), { code: 'wrong_release' })
})

t.test('an error never contains the value of a variable', async t => {
  const value = `hunter2\u0000${'x'.repeat(70_000)}`
  for (const variables of [[{ name: 'A', value, secret: true }], [{ name: 'A', value: [value], secret: true }]])
    t.notMatch(refusalOf({ ...full, variables }), 'hunter2')
})

t.test('seeded: a hostile document is refused, or only known fields of known types are left of it', async t => {
  const random = createRandom(31 + firstSeed)
  const known = shapeOf(full)
  let refused = 0
  for (let round = 0; round < 3000; round++) {
    const document = structuredClone(full) as unknown as Record<string, unknown>
    for (let changes = random.below(3); changes >= 0; changes--) spoil(document, random)
    const text = JSON.stringify(document).replaceAll('"proto"', '"__proto__"')
    try {
      const found = shapeOf(readReleaseDocument(text))
      t.strictSame(
        [...found].filter(each => !known.has(each) && !isFree(each)),
        [],
        text
      )
    } catch (error) {
      if ((error as { code?: string }).code !== 'wrong_release') t.fail(`${(error as Error).stack} of ${text}`)
      refused++
    }
  }
  t.ok(refused > 300 && refused < 2900, `${refused} of 3000 are refused`)
})

const strange = [
  null,
  true,
  0,
  -1,
  1e300,
  '',
  'x',
  'a\0b',
  '\u202e',
  [],
  {},
  [[]],
  { proto: { isAdmin: true } },
  [null]
]

/** Replaces, removes or adds one value at any depth. */
function spoil(target: Record<string, unknown>, random: Random): void {
  const names = Object.keys(target)
  const name = names.length === 0 ? 'new' : random.oneOf(names)
  const inner = target[name]
  if (typeof inner === 'object' && inner !== null && random.below(3) > 0)
    return spoil(inner as Record<string, unknown>, random)
  const kind = random.below(4)
  if (kind === 0) delete target[name]
  else
    target[kind === 1 ? random.oneOf(['proto', 'constructor', 'toString', 'new']) : name] = structuredClone(
      random.oneOf(strange)
    )
}

/** Returns the places of a value with their types. */
function shapeOf(value: unknown, place = ''): Set<string> {
  if (typeof value !== 'object' || value === null)
    return new Set([`${place} ${value === null ? 'null' : typeof value}`])
  const inner = Object.entries(value).flatMap(([name, each]) => [
    ...shapeOf(each, Array.isArray(value) ? `${place}[]` : `${place}.${name}`)
  ])
  return new Set(inner)
}

/** Whether a place may also be null or a text, or has a name that its user chooses. */
function isFree(place: string): boolean {
  return /^\.(message|fileCount|project\.\w+) null$|^\.project\.(runAs|pm2AppName) string$|^\.clientEnv\.\w+ string$|^\.policy\.gate\.after\[\]\.header\.\w+ string$/.test(
    place
  )
}
