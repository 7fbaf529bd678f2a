import t from 'tap'
import { languageOf } from '../../lib/install/language.js'

t.test('recognizes the language by the file name', async t => {
  const cases: Record<string, string> = {
    'index.html': 'html',
    'a.b.TS': 'typescript',
    Dockerfile: 'dockerfile',
    'Dockerfile.dev': 'dockerfile',
    '.env': 'ini',
    '.env.local': 'ini',
    'nginx.conf': 'nginx',
    'x.conf': 'ini',
    Makefile: 'makefile',
    README: 'plaintext',
    c: 'plaintext',
    'x.c': 'c',
    constructor: 'plaintext',
    'x.__proto__': 'plaintext',
    'data.json': 'json',
    'style.css': 'css',
    'x.': 'plaintext'
  }
  for (const [name, language] of Object.entries(cases)) t.equal(languageOf(name), language, name)
})
