import t from 'tap'
import { refuseReserved } from '../../lib/install/reserved.js'

const reserved = ['public/down.html']

t.test('refuses entries at a reserved path, below it, and files in its way', async t => {
  for (const [path, kind] of [
    ['public/down.html', 'file'],
    ['public/down.html', 'symlink'],
    ['public/down.html', 'directory'],
    ['PUBLIC/Down.html', 'file'],
    ['public/down.html/a', 'file'],
    ['public', 'file'],
    ['public', 'symlink']
  ] as const) {
    const entries = [
      { path: 'index.html', kind: 'file' as const },
      { path, kind }
    ]
    t.throws(() => refuseReserved(entries, reserved), { code: 'reserved_path', kind: 'conflict' }, `${kind} ${path}`)
  }
})

t.test('accepts everything else', async t => {
  const entries = ['', 'public', 'public/down', 'public/down.html.gz', 'down.html', 'publi'].map(path => ({
    path,
    kind: path === '' || path === 'public' ? ('directory' as const) : ('file' as const)
  }))
  refuseReserved(entries, reserved)
  refuseReserved([{ path: 'public/down.html', kind: 'file' }], [])
  t.pass()
})
