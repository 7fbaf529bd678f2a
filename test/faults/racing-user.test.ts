import t from 'tap'
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { bare } from '../support/bare.js'

const program = fileURLToPath(new URL('../soak/racer.js', import.meta.url))
const isRoot = process.geteuid?.() === 0

t.test('a user who owns targets and exchanges what is in them changes nothing outside', { skip: !isRoot && 'only root can run a process of another user' }, async t => {
  const [node, words] = bare(process.execPath, [program, '2', '5'])
  const { status, stdout, stderr } = spawnSync(node, words, { encoding: 'utf8' })
  t.equal(status, 0, stderr)
  t.match(stdout, /changes outside the targets: 0\n$/)
  t.comment(stdout)
})
