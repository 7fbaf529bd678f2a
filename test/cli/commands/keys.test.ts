/* svc keys, and pushes that are signed with keys of svc, ssh-keygen and minisign, against a real server. */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServe } from '../../support/serve-process.js'
import { minisignKey, missing, sshKey } from '../../support/signing-tools.js'
import { svc } from '../../support/svc.js'

const skip = missing('ssh-keygen') || missing('minisign')

t.test('keys of every kind sign a push that a project asks to be signed', { skip }, async t => {
  const top = t.testdir({ site: { build: { 'index.html': 'new', 'app.js': 'let x' } }, keys: {} })
  const cwd = join(top, 'site')
  const keys = join(top, 'keys')
  const server = await startServe(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(top, 'www') })
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const own = { cwd, env: { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: shop.token } }
  const push = (...words: string[]) => svc(['push', '--project', shop.id, '--out', 'build', ...words], own)

  t.match(await svc(['keys', 'list'], admin), { code: 0, stderr: /No key is trusted/ })
  const [ana, bo] = [sshKey(keys, 'ana'), minisignKey(keys, 'bo')]
  const generated = join(keys, 'ci')
  t.match(await svc(['keys', 'generate', generated], admin), { code: 0, stdout: /ci\.pub SHA256:/ })
  t.equal(statSync(generated).mode & 0o777, 0o600)
  t.match(await svc(['keys', 'generate', generated], admin), { code: 2, stderr: /it exists already/ })
  t.match(await svc(['keys', 'trust', ana.publicPath], admin), {
    code: 0,
    stdout: /Trusted ana@laptop \(ssh\) SHA256:/
  })
  t.match(await svc(['keys', 'trust', bo.publicPath, '--name', 'bo', '--project', 'shop'], admin), { code: 0 })
  t.match(await svc(['keys', 'trust', `${generated}.pub`, '--name', 'ci'], admin), { code: 0, stdout: /ci \(svc\)/ })
  t.match(await svc(['keys', 'trust', generated, '--name', 'x'], admin), { code: 1, stderr: /it is a private key/ })
  t.match(await svc(['keys', 'trust', join(keys, 'none')], admin), { code: 2, stderr: /Cannot read "none"/ })
  t.match(await svc(['keys', 'list'], admin), { code: 0, stdout: /ana@laptop +ssh +SHA256:.*\n.*bo +minisign/ })

  const policy = 'signatures={"require":"refuse"}'
  t.match(await svc(['projects', 'set', 'shop', '--policy', policy], admin), { code: 0 })
  t.match(await push(), { code: 1, stderr: /must be signed by 1 key of: ana@laptop, bo, ci\. Sign it: --sign-key/ })
  t.notOk(existsSync(join(top, 'www/index.html')))
  const signed = await push('--sign-key', ana.path, '--post', 'echo done', '--set-env', 'STAGE=live')
  t.match(signed, { code: 0, stderr: /Signed tree [0-9a-f]{4}…[0-9a-f]{2} \(2 files\) as ana@laptop SHA256:/ })
  t.match(await push('--sign-key', bo.path), { code: 0, stderr: /as bo SHA256:/ })
  t.match(await push('--sign-key', generated, '--sign-key', ana.path), { code: 0, stderr: /as ci SHA256:/ })
  const inEnvironment = { ...own, env: { ...own.env, SVC_SIGNING_KEY: readFileSync(generated, 'utf8') } }
  t.match(await svc(['push', '--project', shop.id, '--out', 'build'], inEnvironment), {
    code: 0,
    stderr: /Signed tree/
  })
  t.match(await push('--dry-run'), { code: 0, stderr: /Signatures \(refuse\): the project says that a release must/ })

  const withSbom = 'signatures={"require":"refuse","sbom":"require"}'
  t.match(await svc(['projects', 'set', 'shop', '--policy', withSbom], admin), { code: 0 })
  t.match(await push('--sign-key', bo.path), { code: 1, stderr: /it needs a list of components\. Send it: --sbom/ })
  writeFileSync(join(keys, 'bom.json'), '{"bomFormat":"CycloneDX","components":[{"name":"log4j"}]}')
  t.match(await push('--sign-key', bo.path, '--sbom', join(keys, 'bom.json')), { code: 0, stderr: /as bo SHA256:/ })
  t.match(await svc(['search-components', 'log4j'], admin), { code: 0, stdout: /log4j/ })
  t.match(await svc(['projects', 'set', 'shop', '--policy', policy], admin), { code: 0 })
  t.match(await push('--help'), { code: 0, stdout: /--sbom <file>/ })

  const stranger = sshKey(keys, 'mallory')
  t.match(await push('--sign-key', stranger.path), { code: 1, stderr: /is not a trusted key/ })
  const inProject = sshKey(cwd, 'inside')
  t.match(await push('--sign-key', inProject.path), { code: 2, stderr: /the key is in the directory of the project/ })
  t.match(await push('--sign-key', join(keys, 'none')), { code: 2, stderr: /Cannot read the key/ })
  t.match(await push('--sign-for', shop.id), { code: 2, stderr: /need a key/ })
  const locked = sshKey(keys, 'locked', { password: 'correct horse' })
  const ended = await push('--sign-key', locked.path)
  t.match(ended, { code: 1, stderr: /Cannot sign with .*ssh-keygen says/ })
  t.notMatch(ended.stderr, /correct horse/)

  const revoked = await svc(['keys', 'revoke', 'ana@laptop', '--since', '2026-01-01T00:00:00Z', '--yes'], admin)
  t.match(revoked, { code: 0, stdout: /was revoked as of/, stderr: /It has signed 2 deployments since then/ })
  t.match(await push('--sign-key', ana.path), { code: 1, stderr: /was revoked/ })
  t.match(await svc(['keys', 'revoke', 'nobody', '--yes'], admin), { code: 1, stderr: /Key not found: "nobody"/ })
})

t.test('a key that cannot be written whole leaves no file', async t => {
  const cwd = t.testdir({ 'a.pub': '' })
  t.match(await svc(['keys', 'generate', 'a'], { cwd }), {
    code: 2,
    stderr: /Cannot write ".*a.pub": it exists already/
  })
  t.strictSame(readdirSync(cwd), ['a.pub'])
  t.match(await svc(['keys', 'generate', 'none/a'], { cwd }), {
    code: 1,
    stderr: /Cannot open ".*none.a": no such file/
  })
})
