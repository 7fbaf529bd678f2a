import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServe } from '../../support/serve-process.js'
import { serveShop } from '../../support/shop.js'
import { svc } from '../../support/svc.js'

t.test('receipts from the push to a restored backup, verified offline', async t => {
  const { cwd, server, shop } = await serveShop(t, {
    dist: { 'index.html': 'one', 'a b': { 'c.txt': 'c' } },
    out: {},
    empty: {}
  })
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ projectId: shop.id, outputDir: 'dist' }))
  const env = (url: string) => ({ SVC_HOME: server.home, SVC_SERVER_URL: url, SVC_DEPLOY_TOKEN: shop.token })
  const run = (url: string, ...words: string[]) => svc(words, { cwd, env: env(url) })
  /** Runs a command that knows no server. */
  const verify = (...words: string[]) =>
    svc(['receipt', 'verify', ...words], { cwd, env: { SVC_HOME: join(cwd, 'empty') } })

  const pushed = await run(server.url, 'push', '--receipt', 'out/1.json')
  t.match(pushed, { code: 0, stderr: /The receipt is in out\/1.json/ })
  cpSync(join(server.home, 'keys/server.pub'), join(cwd, 'server.pub'))
  t.match(await verify('out/1.json', '--key', 'server.pub'), {
    code: 0,
    stdout: /is valid[^]*2 placed: 2 added, 0 changed/
  })
  t.match(await verify('out/1.json'), { code: 2, stderr: /--key is missing/ })
  const { server: by, deployment } = JSON.parse(
    (await run(server.url, 'receipt', 'show', idIn('out/1.json'), '--json')).stdout
  )
  t.match(await verify('out/1.json', '--key', by.key, '--json'), { code: 0, stdout: /"ok": true/ })
  t.match(await verify('out/1.json', '--key', `SHA256:${'A'.repeat(43)}`), { code: 1, stderr: /you do not trust it/ })
  t.equal((await run(server.url, 'receipt', 'show', deployment.id, '--out', 'again.json')).code, 0)
  t.equal(readFileSync(join(cwd, 'again.json'), 'utf8'), readFileSync(join(cwd, 'out/1.json'), 'utf8'))
  t.match((await run(server.url, 'receipt', 'show', deployment.id, '--result')).stdout, /^{"payloadType"/)

  const list = await run(server.url, 'receipt', 'show', deployment.id, '--list')
  t.match(list.stdout, /^svc-tree 1\n100644 1 [0-9a-f]{64} a b\/c.txt\n/)
  writeFileSync(join(cwd, 'list'), list.stdout)
  const tree = ['out/1.json', '--key', 'server.pub', '--tree', 'www']
  t.match(await verify(...tree), { code: 0, stdout: /The directory is that release/ })
  writeFileSync(join(cwd, 'www/index.html'), 'two')
  writeFileSync(join(cwd, 'www/more.txt'), 'more')
  t.match(await verify(...tree), { code: 1, stderr: /The directory is not the release: its 3 files[^]*--list/ })
  t.match(await verify(...tree, '--list', 'list'), {
    code: 1,
    stderr: /Changed: index.html[^]*Not in the release: more.txt/
  })
  t.match(await verify(...tree, '--list', 'server.pub'), {
    code: 1,
    stderr: /list of files is not that of the release/
  })
  rmSync(join(cwd, 'www/more.txt'))
  writeFileSync(join(cwd, 'www/index.html'), 'one')

  writeFileSync(join(cwd, 'dist/index.html'), 'three')
  const copy = join(cwd, 'copy')
  await server.stop()
  cpSync(server.home, copy, { recursive: true })
  const second = await startServe(t, cwd)
  t.equal((await run(second.url, 'push', '--receipt', 'out/2.json')).code, 0)
  t.equal((await svc(['keys', 'rotate'], { cwd, env: { SVC_HOME: server.home } })).code, 0)
  writeFileSync(join(cwd, 'dist/index.html'), 'four')
  t.equal((await run(second.url, 'push', '--receipt', 'out/3.json')).code, 0)
  t.match(
    await verify('out', '--key', 'server.pub'),
    { code: 1, stderr: /you do not trust it/ },
    'without its statement'
  )
  const exported = await svc(['receipt', 'export', '--project', 'shop', '--since', '1h', '--out', 'all.jsonl'], {
    cwd,
    env: { SVC_HOME: join(cwd, 'empty'), SVC_SERVER_URL: second.url, SVC_TOKEN: second.adminToken }
  })
  t.match(exported, { code: 0, stderr: /Exported 3 receipts/ })
  t.match(await verify('all.jsonl', '--key', 'server.pub'), {
    code: 0,
    stdout: /the receipts 1 to 3 are valid and complete/
  })
  t.match(await verify('all.jsonl', '--key', 'server.pub', '--revoked', by.key), { code: 1, stderr: /is revoked/ })
  t.match(await verify('out/1.json', 'out/2.json', '--key', 'server.pub', '--json'), { code: 0 })
  t.match(await verify('out/2.json', '--previous', 'out/1.json', '--key', 'server.pub'), { code: 0 })
  t.match(
    await verify('out/1.json', '--previous', 'out/2.json', '--key', 'server.pub'),
    { code: 1, stderr: /The chain ends with receipt 1 .* and receipt 2 .* was there before/ },
    'a server that was restored, before it has gone on'
  )
  writeFileSync(join(cwd, 'head.jsonl'), readFileSync(join(cwd, 'all.jsonl'), 'utf8').split('\n')[0] as string)
  t.match(await verify('head.jsonl', '--key', 'server.pub'), { code: 1, stderr: /contains none/ }, 'keys alone')
  await second.stop()

  rmSync(server.home, { recursive: true })
  cpSync(copy, server.home, { recursive: true })
  const third = await startServe(t, cwd)
  t.equal((await run(third.url, 'push', '--receipt', 'forked.json')).code, 0)
  const forked = await verify(
    'forked.json',
    '--previous',
    'out/1.json',
    '--previous',
    'out/2.json',
    '--key',
    'server.pub'
  )
  t.match(forked, { code: 1, stderr: /The chain forks: receipt 2 .* restored from an older backup/ })

  const wrong: Array<[words: string[], code: number, why: RegExp]> = [
    [['list', '--key', 'server.pub'], 1, /not a receipt of a deployment: .*list, line 1/],
    [['none', '--key', 'server.pub'], 1, /Cannot read ".*none"/],
    [['empty', '--key', 'server.pub'], 1, /contains no receipts/],
    [['out/1.json', '--key', 'none'], 1, /Cannot read the key/],
    [['out/1.json', '--key', 'list'], 1, /not the public key of a server/],
    [['out', '--key', 'server.pub', '--tree', 'www'], 2, /--tree needs one receipt/],
    [['out/1.json', '--key', 'server.pub', '--list', 'list'], 2, /--list needs --tree/],
    [['out/1.json', '--key', 'server.pub', '--tree', 'none'], 1, /Cannot read ".*none"/]
  ]
  for (const [words, code, why] of wrong) t.match(await verify(...words), { code, stderr: why }, words.join(' '))

  function idIn(path: string): string {
    const { payload } = JSON.parse(readFileSync(join(cwd, path), 'utf8')) as { payload: string }
    return JSON.parse(Buffer.from(payload, 'base64').toString()).predicate.deployment.id
  }
})

t.test('rollback, undo and promote write a receipt', async t => {
  const cwd = t.testdir({ out: {} })
  const server = await startServe(t, cwd)
  const env = { SVC_HOME: server.home }
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const first = await server.upload(shop, { 'index.html': 'one' })
  await first.finished
  await (await server.upload(shop, { 'index.html': 'two' })).finished
  cpSync(join(server.home, 'keys/server.pub'), join(cwd, 'server.pub'))
  const admin = ['--server', server.url, '--token', server.adminToken]
  const elsewhere = await server.createProject({ name: 'elsewhere', deployPath: join(cwd, 'elsewhere') })
  for (const [origin, ...words] of [
    ['rollback', 'rollback', shop.id, '--to', first.deployId, '--yes'],
    ['promotion', 'promote', shop.id, elsewhere.id, '--yes'],
    ['rollback', 'undo', shop.id, '--yes']
  ] as const) {
    const ended = await svc([...words, ...admin, '--receipt', 'out/more.json'], { cwd, env })
    t.match(ended, { code: 0, stderr: /The receipt is in out\/more.json/ }, words[0])
    const text = (await svc(['receipt', 'verify', 'out/more.json', '--key', 'server.pub', '--json'], { cwd, env }))
      .stdout
    t.match(text, /"ok": true/)
    const { payload } = JSON.parse(readFileSync(join(cwd, 'out/more.json'), 'utf8')) as { payload: string }
    t.match(Buffer.from(payload, 'base64').toString(), `"trigger":"${origin}"`, words[0])
  }
  const late = ['promote', shop.id, elsewhere.id, '--at', '23:59', '--receipt', 'late.json', '--yes', ...admin]
  t.match(await svc(late, { cwd, env }), { code: 2, stderr: /--receipt and --at exclude/ })
})
