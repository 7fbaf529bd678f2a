import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openBackup } from '../../lib/backup/read-backup.js'
import { startServer } from '../support/server.js'

t.test('a backup is sent as a zip, and only to the operator of this machine', async t => {
  const { client, home, url } = await startServer(t)
  const overNetwork = await client.get('/api/backup')
  t.not(overNetwork.status, 200, 'the admin token does not allow it over the network')
  const { withLocalApi } = await import('../../lib/cli/client/local.js')
  const context = { env: {}, output: { warn: () => {} } } as unknown as Parameters<typeof withLocalApi>[0]
  const path = join(t.testdir({}), 'backup.zip')
  await withLocalApi(context, home, async ({ client, isServerRunning }) => {
    t.ok(isServerRunning, url)
    const pieces: Buffer[] = []
    const answer = await client.open({ path: '/api/backup', accept: 'application/zip', answerLimitMs: 60_000 })
    t.equal(answer.headers['content-type'], 'application/zip')
    for await (const piece of answer) pieces.push(piece)
    writeFileSync(path, Buffer.concat(pieces))
  })
  await t.rejects(openBackup(path), { code: /^backup_|^not_a_backup/ }, '"svc backup" adds the seal')
})
