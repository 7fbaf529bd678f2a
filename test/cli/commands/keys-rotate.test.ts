import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readVerifierKey } from '../../../lib/audit/signed-note.js'
import { readSignedCheckpoint, readSignedText } from '../../audit/note-reader.js'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('replaces the key of the server, with and without the server', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
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
