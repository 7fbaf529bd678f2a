/*
 * The walk of an auditor who has the key of a server from the beginning: the key is rotated, a key that signs releases is
 * revoked, a release is carried to another server, and its records after it. Everything is verified offline, and nothing that
 * was changed on the way is taken for what it was.
 */
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { withBundle } from '../../lib/cli/bundle/contents.js'
import type { Deployment } from '../../lib/model/deployment.js'
import { changedBytes, createRandom } from '../support/random.js'
import { startServe } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { firstSeed, repetitions } from '../support/thorough.js'

t.test('from a signed push to another server, over two keys', async t => {
  const cwd = t.testdir({ a: {}, b: {}, keys: {}, shop: { dist: { 'index.html': 'one' } }, empty: {} })
  const [from, to] = [await startServe(t, join(cwd, 'a')), await startServe(t, join(cwd, 'b'))]
  const shop = join(cwd, 'shop')
  const signed = { policy: { signatures: { require: 'refuse' } } }
  const here = await from.createProject({ name: 'shop', deployPath: join(cwd, 'www-a') })
  const there = await to.createProject({ name: 'shop', deployPath: join(cwd, 'www-b') })
  const as = ({ home, url, adminToken }: typeof from, deployToken = '') => ({
    cwd: shop,
    env: { SVC_HOME: home, SVC_SERVER_URL: url, SVC_TOKEN: adminToken, SVC_DEPLOY_TOKEN: deployToken }
  })
  /** Runs a command that knows no server. */
  const offline = (...words: string[]) => svc(words, { cwd: shop, env: { SVC_HOME: join(cwd, 'empty') } })
  for (const name of ['ana', 'ben']) {
    t.match(await offline('keys', 'generate', `../keys/${name}`), { code: 0 })
    for (const server of [from, to])
      t.match(await svc(['keys', 'trust', `../keys/${name}.pub`, '--name', name], as(server)), { code: 0 })
  }
  await from.changeProject(here.id, signed)
  await to.changeProject(there.id, signed)
  const push = (text: string, key: string, receipt: string) => {
    writeFileSync(join(shop, 'dist/index.html'), text)
    const words = ['push', '--project', here.id, '--out', 'dist', '--sign-key', `../keys/${key}`, '--receipt', receipt]
    return svc(words, as(from, here.token))
  }

  t.match(await push('one', 'ana', '1.json'), { code: 0 })
  cpSync(join(from.home, 'keys/server.pub'), join(shop, 'old.pub'))
  t.match(await svc(['keys', 'rotate'], as(from)), { code: 0 })
  t.match(await push('two', 'ben', '2.json'), { code: 0 })
  t.match(await svc(['keys', 'revoke', 'ben', '--yes'], as(from)), { code: 0, stderr: /has signed 1 deployment/ })
  const refused = await push('three', 'ben', '3.json')
  t.match(refused, { code: 1, stderr: /the key "ben" .* was revoked/ })

  // A receipt of the new key says nothing to who knows the old one, until the server says which key followed.
  const alone = await offline('receipt', 'verify', '1.json', '2.json', '--key', 'old.pub')
  t.match(alone, { code: 1, stderr: /you do not trust it/ })
  t.match(alone.stderr + alone.stdout, /"svc receipt export" of the server/)
  t.match(await svc(['receipt', 'export', '--out', 'all.jsonl'], as(from)), { code: 0 })
  const whole = await offline('receipt', 'verify', 'all.jsonl', '--key', 'old.pub')
  t.match(whole, { code: 0, stdout: new RegExp(`"shop" \\(${here.id}\\): the receipts 1 to 2 are valid and complete`) })

  const bundle = (key: string) => {
    const words = ['bundle', '--project', there.id, '--out', 'dist', '--file', `${key}.svcb`]
    return offline(...words, '--sign-key', `../keys/${key}`)
  }
  const carry = (file: string, ...more: string[]) =>
    svc(['apply', file, '--project', there.id, '--yes', ...more], as(to, there.token))
  t.match(await svc(['keys', 'revoke', 'ben', '--yes'], as(to)), { code: 0, stdout: /^[^\n]*\n$/ }, 'no empty table')
  for (const key of ['ana', 'ben']) t.match(await bundle(key), { code: 0 })
  t.match(await carry('ben.svcb'), { code: 1, stderr: /the key "ben" .* was revoked/ })
  t.match(await offline('bundle', 'verify', 'ana.svcb', '--keys', '../keys/ben.pub'), { code: 1 })
  t.match(await offline('bundle', 'verify', 'ana.svcb', '--keys', '../keys/ana.pub'), { code: 0 })
  const counted = async () => (await to.deployments(there.id)).length
  t.equal(await counted(), 0, 'nothing was deployed')

  await t.test('what was changed on the way is refused, and nothing is deployed', async t => {
    const count = repetitions(12, 300)
    const whole = await offline('bundle', 'verify', '--keys', '../keys/ana.pub', 'ana.svcb')
    const originals = { 'ana.svcb': readFileSync(join(shop, 'ana.svcb')), '1.json': readFileSync(join(shop, '1.json')) }
    for (let seed = firstSeed; seed < firstSeed + count; seed++) {
      const random = createRandom(seed)
      for (const [name, original] of Object.entries(originals)) {
        const changed = changedBytes(random, original)
        if (changed.equals(original)) continue
        writeFileSync(join(shop, `changed-${name}`), changed)
        const isBundle = name.endsWith('.svcb')
        const words = isBundle
          ? ['bundle', 'verify', '--keys', '../keys/ana.pub']
          : ['receipt', 'verify', '--key', 'old.pub']
        const verified = await offline(...words, `changed-${name}`)
        // A byte of a zip may say nothing about the release.
        if (isBundle && verified.code === 0) {
          t.equal(verified.stdout.replace('changed-', ''), whole.stdout, `seed ${seed}: the same release`)
          continue
        }
        const all = isBundle ? [verified, await carry(`changed-${name}`)] : [verified]
        for (const ended of all) {
          t.ok(ended.code === 1 || ended.code === 2, `seed ${seed}, ${name}: ${ended.code} ${ended.stdout}`)
          t.match(ended.stderr, /^error: \S/m, `seed ${seed}, ${name}`)
          t.notMatch(ended.stderr, /\n\s+at |answered 5\d\d|try again/i, `seed ${seed}, ${name}`)
        }
      }
      // The server itself gets what the command would have refused.
      const changed = await changeOf(random)
      if (changed === null) continue
      const { status, text } = await upload(changed)
      t.ok(status >= 400 && status < 500, `seed ${seed}, on the server: ${status} ${text}`)
    }
    t.equal(await counted(), 0)
  })

  t.match(await carry('ana.svcb', '--receipt', 'there.json'), { code: 0 })
  cpSync(join(to.home, 'keys/server.pub'), join(shop, 'there.pub'))
  const tree = ['--tree', join(cwd, 'www-b')]
  const found = await offline('receipt', 'verify', 'there.json', '--key', 'there.pub', ...tree)
  t.match(found, { code: 0, stdout: /Signed: +ana SHA256[^]*The directory is that release/ })
  t.match(await offline('receipt', 'verify', 'there.json', '--key', 'old.pub'), { code: 1 }, 'it is of another server')

  t.match(await svc(['export', '--out', 'package.zip'], as(from)), { code: 0 })
  const imported = await svc(['import', 'package.zip', '--strategy', 'merge'], as(to))
  const [live] = (await from.deployments(here.id)) as [Deployment]
  t.match(imported, {
    code: 1,
    stderr: new RegExp(`takes only signed releases[^]*svc rollback ${here.id} --to ${live.id}`)
  })
  t.match(await svc(['receipt', 'export', '--out', 'both.jsonl'], as(to)), { code: 0 })
  const keys = ['--key', 'there.pub', '--key', 'old.pub']
  t.match(await offline('receipt', 'verify', 'both.jsonl', ...keys), { code: 1 }, 'the second key is not known there')
  const kept = await offline('receipt', 'verify', 'both.jsonl', ...keys, '--previous', 'all.jsonl')
  t.match(kept, { code: 0 })
  for (const { id } of [here, there]) t.match(kept.stdout, `"shop" (${id}): the receipts 1 to`)
  t.notOk(readdirSync(shop).includes('3.json'), 'no receipt of what was refused')

  /** Returns what was signed and its signature, one of them changed; null: the change has changed nothing. */
  async function changeOf(random: ReturnType<typeof createRandom>): Promise<Uploaded | null> {
    const read = (name: string) => withBundle(join(shop, 'ana.svcb'), bundle => bundle.read(name))
    const statement = (await read('statement.json')) as Buffer
    const signature = (await read('signatures/1')) as Buffer
    const isStatement = random.below(2) === 0
    const changed = changedBytes(random, isStatement ? statement : signature)
    if (changed.equals(isStatement ? statement : signature)) return null
    return isStatement ? { statement: changed, signature } : { statement, signature: changed }
  }

  async function upload({ statement, signature }: Uploaded): Promise<{ status: number; text: string }> {
    const archive = await withBundle(join(shop, 'ana.svcb'), bundle => bundle.read('archive.zip'))
    const parts = [
      ['projectId', there.id],
      ['statement', statement],
      ['signature', signature]
    ] as const
    const text = parts.map(([name, value]) => [
      `--x\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n`,
      value,
      '\r\n'
    ])
    const file = '--x\r\ncontent-disposition: form-data; name="file"; filename="a.zip"\r\n\r\n'
    const body = Buffer.concat(
      [...text.flat(), file, archive as Buffer, '\r\n--x--\r\n'].map(part => Buffer.from(part))
    )
    const headers = { authorization: `Bearer ${there.token}`, 'content-type': 'multipart/form-data; boundary=x' }
    const answer = await fetch(`${to.url}/api/deploy/upload`, { method: 'POST', headers, body: new Uint8Array(body) })
    return { status: answer.status, text: await answer.text() }
  }
})

interface Uploaded {
  statement: Buffer
  signature: Buffer
}
