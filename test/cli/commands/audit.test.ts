import t from 'tap'
import { appendFileSync, copyFileSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readVerifierKey } from '../../../lib/core/audit/signed-note.js'
import { auditSentence } from '../../../lib/cli/commands/audit.js'
import { exported, verified } from '../../core/audit/export-stage.js'
import { readSignedCheckpoint, readSignedText } from '../../core/audit/note-reader.js'
import { openLog } from '../../core/audit/stage.js'
import { startServe } from '../../support/serve-process.js'
import { serveShop } from '../../support/shop.js'
import { svc } from '../../support/svc.js'

t.test('lists the audit log with filters', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  t.match(await svc(['audit', 'list'], admin), { code: 0, stdout: '', stderr: /No entries/ })
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  await server.api('PUT', `/api/projects/${shop.id}`, { description: 'A shop' })
  const { code, stdout } = await svc(['audit', 'list'], admin)
  t.equal(code, 0)
  t.match(stdout, /^NUMBER +TIME +ACTOR +ADDRESS +ACTION +PROJECT +TARGET +DETAIL$/m)
  t.match(stdout, /^2 +20.*Z +admin +127\.0\.0\.1 +project\.update +shop +- +shop; description: none → A shop *\n1 +/m)
  const listed = async (...words: string[]) =>
    (JSON.parse((await svc(['audit', 'list', '--json', ...words], admin)).stdout) as Array<{ seq: number }>).map(
      ({ seq }) => seq
    )
  t.same(await listed(), [2, 1])
  t.same(await listed('--limit', '1'), [2])
  t.same(await listed('--action', 'project.create', '--project', shop.id), [1])
  t.same(await listed('--project', 'shop', '--since', '1h'), [2, 1])
  t.same(await listed('--until', '2026-01-01'), [])
  const fails = async (...words: string[]) => {
    const { code, stdout, stderr } = await svc(['audit', 'list', ...words], admin)
    t.not(code, 0, words.join(' '))
    t.equal(stdout, '')
    return stderr
  }
  t.match(await fails('--project', 'shpo'), /Project not found: "shpo"/)
  t.match(await fails('--by', 'ci-shop'), /Token not found: "ci-shop"/)
  t.match(await fails('--project', 'proj_unknown'), /Project not found: "proj_unknown"/)
  t.match(await fails('--project', 'proj_unknown', '--csv'), /Project not found/)
  t.match(await fails('--action', 'project.updated'), /Did you mean "project.update"\? Known: auth.login, /)
  t.match(await fails('--since', 'yesterday'), /--since cannot be "yesterday"/)
  t.match(await fails('--csv', '--json'), /--csv or --json/)

  await t.test('as CSV, with the names of projects, also after one was deleted', async t => {
    const rows = async (...words: string[]) =>
      (await svc(['audit', 'list', '--csv', ...words], admin)).stdout.trimEnd().split('\r\n')
    const [header, newest] = await rows('--project', 'shop')
    t.equal(header, 'number,time,actor,token,role,address,action,ok,project,project id,target,detail,id')
    t.match(newest, /^2,2\d{3}-\d\d-\d\dT[\d:.]+Z,admin,,admin,127\.0\.0\.1,project\.update,yes,shop,proj_\w+,/)
    await server.api('PUT', `/api/projects/${shop.id}`, { name: '=cmd()' })
    t.match((await rows('--project', '=cmd()'))[1], /,'=cmd\(\),proj_/)
    await server.api('DELETE', `/api/projects/${shop.id}`)
    t.equal((await rows('--project', shop.id)).length, 5)
  })
})

t.test('writes a report for an auditor', async t => {
  const cwd = t.testdir({ site: { 'index.html': 'hello' } })
  const server = await startServe(t, cwd)
  const shop = await server.createProject({ name: 'shop & <b>', deployPath: join(cwd, 'www') })
  writeFileSync(join(cwd, 'site', 'svc.config.json'), JSON.stringify({ projectId: shop.id }))
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const pusher = { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: shop.token }
  t.match(await svc(['push'], { cwd: join(cwd, 'site'), env: pusher }), { code: 0 })
  const { record, token } = (await server.api('POST', '/api/tokens', { name: 'ana', role: 'operator' })) as never
  await server.api('PATCH', `/api/tokens/${(record as { id: string }).id}`, { projectIds: [shop.id] })
  await server.api('PUT', '/api/settings', { keep_archives: '7' })

  const html = await svc(['audit', 'report', '--out', 'report.html'], admin)
  t.match(html, { code: 0, stdout: `${join(cwd, 'report.html')}\n` }, html.stderr)
  const text = readFileSync(join(cwd, 'report.html'), 'utf8')
  t.match(text, /<h2>Deployments \(1\)<\/h2>/)
  t.match(
    text,
    /<td>shop &amp; &lt;b&gt;<\/td><td>the deploy token of shop &amp; &lt;b&gt;<\/td><td>deployment dep_\w+<\/td>/
  )
  t.match(text, /token\.update<\/td><td>done<\/td><td>tok_\w+; ana; projectIds: all → shop &amp; &lt;b&gt;</)
  t.match(text, /settings\.update<\/td><td>done<\/td><td>keep_archives; keep_archives: \d+ → 7</)
  t.match(text, /<dt>Verification<\/dt><dd>Verified: \d+ entries match the checkpoint of \d+, 0 were removed before/)
  t.match(text, /<dt>Made by<\/dt><dd>admin</)
  t.equal(statSync(join(cwd, 'report.html')).mode & 0o777, 0o600)

  await t.test('as CSV, of a period', async t => {
    await svc(['audit', 'report', '--format', 'csv', '--out', 'all.csv'], admin)
    t.match(readFileSync(join(cwd, 'all.csv'), 'utf8'), /^Deployments,2.*,success,.*; receipt [0-9a-f]{64}/m)
    await svc(
      ['audit', 'report', '--since', '2020-01-01', '--until', '2020-02-01', '--format', 'csv', '--out', 'old.csv'],
      admin
    )
    const old = readFileSync(join(cwd, 'old.csv'), 'utf8')
    t.notMatch(old, /^Deployments/m)
    t.match(old, /^Report,,,,Entries of the audit log in the period,,0\r$/m)
  })

  await t.test('without a verification if the token cannot export the log', async t => {
    const ana = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: token as string } }
    t.match(await svc(['audit', 'report', '--out', 'ana.html'], ana), { code: 0 })
    t.match(readFileSync(join(cwd, 'ana.html'), 'utf8'), /Not verified: only an operator of all projects/)
    t.match(await svc(['audit', 'report', '--out', 'no/such.html'], ana), { code: 1, stderr: /Cannot/ })
  })
})

t.test('exports the audit log to a file', async t => {
  const { cwd, server, shop, admin } = await serveShop(t)
  const path = join(cwd, 'audit.jsonl')

  const { code, stdout, stderr } = await svc(['audit', 'export', '--out', 'audit.jsonl'], admin)
  t.equal(code, 0, stderr)
  t.equal(stdout, `${path}\n`)
  t.match(stderr, 'Exported 2 entries (')
  t.match(verified(readFileSync(path)), { faults: [], entries: 2 })
  t.equal(statSync(path).mode & 0o777, 0o600)

  await t.test('or a part of it', async t => {
    const part = await svc(['audit', 'export', '--from', '2', '--to', '2', '--json'], admin)
    const result = JSON.parse(part.stdout) as { path: string }
    t.match(result, { ok: true, entries: 1, omitted: 2, faults: [] })
    t.match(result.path, /svc-audit-.*\.jsonl$/)
    t.match(verified(readFileSync(result.path)), { faults: [], entries: 1, omitted: 2 })
  })

  await t.test('and leaves nothing behind after a refusal', async t => {
    const before = readdirSync(cwd)
    t.match(await svc(['audit', 'export', '--from', '99'], admin), { code: 1, stderr: /--from is 99/ })
    const pusher = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: shop.token } }
    t.match(await svc(['audit', 'export', '--out', 'no.jsonl'], pusher), { code: 1 })
    t.notOk(existsSync(join(cwd, 'no.jsonl')))
    t.same(readdirSync(cwd), before)
  })
})

t.test('verifies an export without a server', async t => {
  const cwd = t.testdir({ server: {}, other: {}, old: {} })
  const log = await openLog(join(cwd, 'server'))
  const verify = (...words: string[]) => svc(['audit', 'verify', ...words], { cwd })
  await log.fill(300)
  await log.keeper.current()
  writeFileSync(join(cwd, 'early.note'), log.keeper.newest()?.note as string)
  await log.fill(12)
  writeFileSync(join(cwd, 'audit.jsonl'), await exported(log))
  const seen = log.keeper.newest()?.note as string
  copyFileSync(join(cwd, 'server/keys/server.pub'), join(cwd, 'server.pub'))
  await log.close()

  await t.test('says that everything is right', async t => {
    const { code, stdout, stderr } = await verify('audit.jsonl', '--key', 'server.pub', '--anchor', 'early.note')
    t.equal(code, 0, stderr)
    t.match(stdout, /^312 entries: the root matches the checkpoint of 312 entries, signed with the key [0-9a-f]{8}; /)
    t.match(stdout, /; the anchor of 300 entries is a prefix\n$/)
    t.equal(stderr, '')
    t.match(await verify('audit.jsonl'), { code: 0, stderr: /The key was not compared: give --key/ })
  })

  await t.test('reads several anchors from one file', async t => {
    writeFileSync(join(cwd, 'all.notes'), `${readFileSync(join(cwd, 'early.note'), 'utf8')}\n${seen}\n`)
    const { stdout } = await verify('audit.jsonl', '--anchor', 'all.notes', '--json')
    t.match(JSON.parse(stdout), { ok: true, anchors: [300, 312] })
    appendFileSync(join(cwd, 'all.notes'), 'x\n')
    t.match(await verify('audit.jsonl', '--anchor', 'all.notes'), { code: 1, stderr: /not a signed checkpoint/ })
  })

  await t.test('names the first entry that was changed', async t => {
    const text = readFileSync(join(cwd, 'audit.jsonl'), 'utf8')
    writeFileSync(join(cwd, 'changed.jsonl'), text.replace('"target":"77"', '"target":"78"'))
    t.match(await verify('changed.jsonl'), { code: 1, stdout: '', stderr: /Entry 77 was changed/ })
  })

  await t.test('finds a missing end and a rewritten past', async t => {
    const short = await openLog(join(cwd, 'other'))
    await short.fill(10)
    await short.close()
    // The same key signs another history, as the owner of the server can do.
    for (const name of ['server.ed25519', 'server.pub'])
      copyFileSync(join(cwd, 'server/keys', name), join(cwd, 'other/keys', name))
    const forged = await openLog(join(cwd, 'other'))
    await forged.store.write(tx => tx.run('UPDATE auditTree SET origin = ?', seen.split('\n')[0] as string))
    await forged.fill(1)
    writeFileSync(join(cwd, 'short.jsonl'), await exported(forged))
    await forged.fill(400)
    writeFileSync(join(cwd, 'forged.jsonl'), await exported(forged))
    await forged.close()
    const given = ['--key', 'server.pub', '--anchor', 'early.note']
    t.match(await verify('short.jsonl', ...given), { code: 1, stderr: /The end is missing: an anchor has 300 entries/ })
    t.match(await verify('forged.jsonl', ...given), {
      code: 1,
      stderr: /The past was rewritten: the first 300 entries/
    })
    t.equal((await verify('forged.jsonl', '--key', 'server.pub')).code, 0, 'without an anchor nobody can know')
  })

  await t.test('accepts removed entries only if told so, and prints which', async t => {
    const old = await openLog(join(cwd, 'old'), { keepDays: 10 })
    await old.fill(5)
    old.clock.advance(20 * 24 * 60 * 60_000)
    await old.fill(2)
    writeFileSync(join(cwd, 'trimmed.jsonl'), await exported(old))
    writeFileSync(join(cwd, 'part.jsonl'), await exported(old, { from: 3, to: 6 }))
    await old.close()
    const removed = /Removed: entries 1 to 5 \(entry 7 of 2030-01-21T\S+ says "5 older than 10 days"\)/
    t.match(await verify('trimmed.jsonl'), {
      code: 1,
      stdout: removed,
      stderr: /5 entries were removed .*--allow-trimmed/
    })
    t.match(await verify('trimmed.jsonl', '--allow-trimmed'), { code: 0, stdout: removed })
    const { stdout } = await verify('trimmed.jsonl', '--json')
    t.match(JSON.parse(stdout), { ok: false, removed: 5, removedRanges: [{ from: 1, to: 5, by: 7 }] })
    t.match(await verify('part.jsonl', '--allow-trimmed'), {
      code: 1,
      stdout: /Removed: entries 3 to 5 \(no exported entry says so\)\nNot exported: 4 of the entries 1 to 8/,
      stderr: /verify an export up to the newest entry/
    })
  })

  await t.test('refuses files that are something else', async t => {
    t.match(await verify('missing'), { code: 1, stderr: /Cannot read/ })
    t.match(await verify('audit.jsonl', '--key', 'early.note'), { code: 1, stderr: /not a key like/ })
    t.match(await verify('audit.jsonl', '--anchor', 'audit.jsonl'), { code: 1, stderr: /not a signed checkpoint/ })
    t.match(await verify('early.note'), { code: 1, stderr: /not an export/ })
  })
})

t.test('replaces the key of the server, with and without the server', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const before = ((await server.api('GET', '/api/audit/checkpoint')) as { key: string }).key
  const options = { cwd, env: { SVC_HOME: server.home } }
  const rotated = await svc(['keys', 'rotate', '--json'], options)
  t.equal(rotated.code, 0, rotated.stderr)
  const keys = JSON.parse(rotated.stdout) as { before: string; after: string }
  t.equal(keys.before, before)
  t.ok(readVerifierKey(keys.after))
  t.equal(readFileSync(join(server.home, 'keys/server.pub'), 'utf8'), `${keys.after}\n`)

  const { key, note } = (await server.api('GET', '/api/audit/checkpoint')) as { key: string; note: string }
  t.equal(key, keys.after)
  for (const one of [keys.before, keys.after]) t.equal(readSignedCheckpoint(note, one).size, 2, 'signed by both')
  const { items } = (await server.api('GET', '/api/audit?limit=1')) as {
    items: Array<{ action: string; target: string; detail: string }>
  }
  t.match(items, [{ action: 'audit.rotate_key', actor: 'local', target: keys.after }])
  const [origin] = note.split('\n')
  const lines = (items[0]?.detail ?? '').split(/ (?=—)/u).map(line => `${line}\n`)
  const text = `${origin}\nkey ${keys.after}\n`
  for (const one of [keys.before, keys.after]) t.equal(readSignedText(`${text}\n${lines.join('')}`, one), text)

  await server.stop()
  const again = await svc(['keys', 'rotate'], options)
  t.equal(again.code, 0, again.stderr)
  t.not(again.stdout.trim(), keys.after)
  t.match(await svc(['keys', 'rotate'], { cwd, env: { SVC_HOME: join(cwd, 'none') } }), { code: 1 })
})

t.test('says what an export contains', async t => {
  t.equal(auditSentence({ entries: 1, removed: 0, omitted: 0 }), '1 entry')
  t.equal(auditSentence({ entries: 12, removed: 3, omitted: 4 }), '12 entries, 3 removed before, 4 not exported')
})
