import t from 'tap'
import { readServerFile } from '../../../lib/cli/server-file/format.js'
import { planOf } from '../../../lib/cli/server-file/plan.js'
import { type ServerState, usualProject } from '../../../lib/cli/server-file/state.js'

/** Returns what a plan does with the log sources of a server (`there`) and of a file, both named by a letter. */
function plan(there: string, inFile: string, prune = false) {
  const source = (letter: string) => ({ filePath: `/log/${letter}`, label: letter, kind: 'plain' as const })
  const sources = [...there].map((letter, index) => ({
    id: letter,
    seen: '1',
    sortOrder: index * 2,
    fields: source(letter)
  }))
  const fields = { ...usualProject, name: 'shop', deployPath: '/srv/shop' }
  const kept = { id: 'proj_1', seen: '"1"', hasDeployments: false, sources, variables: [], placements: [], fields }
  const projects = [{ name: 'shop', deployPath: '/srv/shop', logSources: [...inFile].map(source) }]
  const read = readServerFile(JSON.stringify({ format: 'svc-server-1', projects }), { name: 'file', env: {} })
  const others = { settings: {}, categories: [], tags: [], nodes: [], notificationTargets: [] }
  const state = { ...others, projects: [kept] } as unknown as ServerState
  const { tasks } = planOf({ ...read, state, prune, secrets: false })
  return tasks.map(({ action, name, fields }) => {
    const order = fields.find(({ field }) => field === 'sortOrder')?.to
    return `${action} ${name.slice(-1)}${order === undefined ? '' : ` ${order}`}`
  })
}

t.test('log sources get the order of the file', async t => {
  t.same(plan('abc', 'abc'), [])
  t.same(plan('abc', 'cba'), ['change c 0', 'change b 1', 'change a 2'])
  t.same(plan('abc', 'ca'), ['change c 0', 'change a 2', 'change b 1'], 'the others keep their places')
  t.same(plan('abc', 'ac'), [])
  t.same(plan('ab', 'abx'), ['create x'], 'a new one is the last')
  t.same(plan('ab', 'xab'), ['create x', 'change a 1'], 'or where the file has it: b is third already')
  t.same(plan('', 'xy'), ['create x', 'create y'])
  t.same(plan('abc', 'ca', true), ['change c 0', 'change a 1', 'delete b'])
})
