import t from 'tap'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import {
  addressRule,
  hasDots,
  outsideAddress,
  panelAddress,
  panelPath,
  pictureAddress,
  type Here
} from '../../../www/dom/address.js'

const root = 'https://svc.example.org/tools/svc/'
const where: Here = { root, base: root, others: ['https://deploy.example.org/tools/svc'] }
const onThisMachine: Here = { root: 'http://localhost:5431/', base: 'http://localhost:5431/', others: [] }

t.test('text of others leads to other servers', async t => {
  for (const [text, expected] of [
    ['https://github.com/team/shop', 'https://github.com/team/shop'],
    ['HTTPS://GitHub.com/', 'https://github.com/'],
    ['http://localhost:3000/', 'http://localhost:3000/'],
    ['https://svc.example.org.evil.test/api', 'https://svc.example.org.evil.test/api'],
    ['https://svc.example.org:8443/', 'https://svc.example.org:8443/'],
    ['https://bücher.example/', 'https://xn--bcher-kva.example/']
  ] as const) {
    t.equal(String(outsideAddress(text, where)), expected, text)
  }
})

t.test('text of others never leads to this server, however its address is written', async t => {
  for (const text of [
    'https://svc.example.org/tools/svc/api/nodes/evil/at/projects/p/download?path=x',
    'https://svc.example.org/',
    'HTTPS://SVC.EXAMPLE.ORG/x',
    'https://svc.example.org:443/api',
    'https://svc.example.org./api',
    'https://svc.example.org../api',
    'https://svc。example．org/api',
    'https://ｓｖｃ.example.org/api',
    'https://svc%2Eexample%2Eorg/api',
    'https://svc\u00ad.example.org/api',
    'https:///svc.example.org/api',
    'https://\\svc.example.org/api',
    'https://svc.example.org\\api',
    'https://s\tvc.example.org/\napi',
    'http://svc.example.org/api',
    'http://svc.example.org:80/api',
    'https://deploy.example.org/api',
    'https://DEPLOY.example.org.:443/tools/svc/api',
    'https://admin@svc.example.org/api',
    'https://svc.example.org@evil.test/',
    'https://:x@evil.test/',
    '//svc.example.org/api',
    '/api',
    'https:svc.example.org/api',
    'javascript:alert(1)',
    'java\nscript:alert(1)',
    'data:text/html,x',
    'blob:https://svc.example.org/1',
    'ftp://evil.test/',
    'https://',
    'https://[::1/',
    '',
    `https://evil.test/${'a'.repeat(3000)}`
  ]) {
    t.equal(outsideAddress(text, where), null, JSON.stringify(text))
  }
})

t.test('every name of this machine is this server if the panel is open under one of them', async t => {
  for (const host of [
    'localhost',
    'LOCALHOST.',
    'x.localhost',
    '127.0.0.1',
    '127.1',
    '0x7f.1',
    '0177.0.0.1',
    '2130706433',
    '127.9.9.9',
    '0.0.0.0',
    '0',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:0:0]'
  ]) {
    t.equal(outsideAddress(`http://${host}:5431/api/x`, onThisMachine), null, host)
    t.not(outsideAddress(`http://${host}:3000/`, onThisMachine), null, `${host}, another port`)
  }
})

t.test('links of the panel lead to pages of the panel', async t => {
  const onNode: Here = { ...where, base: `${root}nodes/node_a/` }
  for (const text of [
    '.',
    'projects',
    'projects/p?tab=1#x',
    '/tools/svc/nodes',
    `${root}nodes`,
    '#main',
    '',
    'apis/x',
    'projects/api'
  ]) {
    t.equal(String(panelAddress(text, where)), text, text)
    t.equal(String(panelAddress(text, onNode)), text, `${text}, on the page of a node`)
  }
  for (const text of [
    'api/logs',
    'API/logs',
    '%61pi/logs',
    'api%2Flogs',
    'api%5Clogs',
    '/api/x',
    '/tools/svc//api/x',
    'projects/../api/x',
    'projects/%2e%2e/api/x',
    'projects/.%2E/api',
    'projects\\..\\api',
    'projects%2F..%2Fapi',
    '..',
    '../other',
    '/tools/svc-other/',
    '/tools',
    '//evil.test/',
    '\\\\evil.test/',
    'https://evil.test/',
    'http://svc.example.org/tools/svc/',
    'https://u@svc.example.org/tools/svc/',
    'javascript:alert(1)',
    ' java\tscript:alert(1)',
    'data:text/html,x',
    `blob:${root}x`,
    'projects/%'
  ]) {
    t.equal(panelAddress(text, where), null, text)
  }
  t.equal(panelAddress('/tools/svc/api/x', onNode), null)
  t.equal(panelAddress('../../api/x', onNode), null)
})

t.test('a value in a path is one segment', async t => {
  t.equal(panelPath`projects/${'a/../../api'}?q=${'x&y'}`, 'projects/a%2F..%2F..%2Fapi?q=x%26y')
  t.equal(panelPath`logs?${new URLSearchParams({ source: 'a b' })}`, 'logs?source=a+b')
  t.equal(panelPath`projects/${'\ud800'}`, 'projects/%EF%BF%BD')
  t.equal(panelAddress(panelPath`projects/${'..'}`, where), null, 'a parent directory has no encoded form')
  for (const path of ['api/projects/..', 'api/x%2F..%2fy', 'api/x%5c.', 'api/%2e%2E/x', 'a/./b', 'a\\..'])
    t.ok(hasDots(path), path)
  for (const path of ['.', 'api/files?path=../x', 'a/..b', 'a/%252e']) t.notOk(hasDots(path), path)
})

t.test('a template has no place for other addresses, code or styles', async t => {
  const href = addressRule('a', 'href')
  t.equal(href?.('projects/p'), 'projects/p')
  for (const value of ['api/x', 'https://evil.test/', 'javascript:alert(1)', null, undefined, false, true, 7, {}]) {
    t.equal(href?.(value), null, String(value))
  }
  t.equal(href?.(outsideAddress('https://github.com/', where)), 'https://github.com/')
  const src = addressRule('img', 'src')
  t.equal(src?.('/icons/svc.svg'), '/icons/svc.svg')
  t.equal(src?.('https://evil.test/x.png'), null)
  t.equal(String(pictureAddress('blob:https://svc.example.org/1', where)), 'blob:https://svc.example.org/1')
  t.equal(pictureAddress('blob:https://evil.test/1', where), null)
  t.equal(addressRule('button', 'title'), null)
  for (const [tag, name] of [
    ['a', '.href'],
    ['a', 'xlink:href'],
    ['a', 'ping'],
    ['img', 'srcset'],
    ['img', '.src'],
    ['svc-x', 'src'],
    ['form', 'action'],
    ['button', 'formaction'],
    ['button', 'FORMACTION'],
    ['div', 'style'],
    ['div', '.style'],
    ['div', 'onclick'],
    ['div', '.onclick'],
    ['div', '.innerHTML'],
    ['div', '.outerHTML'],
    ['div', 'srcdoc'],
    ['iframe', 'title'],
    ['script', 'type'],
    ['base', 'href'],
    ['object', 'data']
  ] as const) {
    t.throws(() => addressRule(tag, name), TypeError, `<${tag} ${name}>`)
  }
})

const sources = fileURLToPath(new URL('../../../../www/', import.meta.url))
const assigned = /^(?:href|src|srcset|srcdoc|action|formAction|ping|innerHTML|outerHTML|cssText|location)$/
const attributes = /^(?:href|src|srcset|srcdoc|action|formaction|ping|style|on.*)$/
const called =
  /(?:^|\.)(?:insertAdjacentHTML|setHTMLUnsafe|createContextualFragment|parseFromString|setAttributeNS|eval|Function)$|^document\.write|^window\.open$|^Reflect\.set$|\blocation\.(?:assign|replace)$/

/** Returns what sets an address, markup or code in a file: neither a template nor dom/address.ts. */
function assignmentsIn(path: string, text: string): string[] {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.ESNext, true)
  const found: string[] = []
  const isCall = (node: ts.CallExpression | ts.NewExpression): boolean => {
    const name = node.expression.getText(file)
    const [first, ...rest] = node.arguments ?? []
    if (name.endsWith('.setAttribute')) return !(first && ts.isStringLiteral(first)) || attributes.test(first.text)
    if (name === 'Object.assign') return rest.some(given => namesOf(given).some(name => assigned.test(name)))
    return called.test(name)
  }
  const visit = (node: ts.Node): void => {
    const isAssignment = ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.EqualsToken
    const isSetter = isAssignment && assigned.test(nameOf(node.left))
    if (isSetter || ((ts.isCallExpression(node) || ts.isNewExpression(node)) && isCall(node))) {
      found.push(node.getText(file).slice(0, 80))
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  return found
}

/** Returns the name of what is assigned: `href` of `link.href` and `link['href']`. */
function nameOf(node: ts.Node): string {
  if (ts.isIdentifier(node)) return node.text === 'location' ? node.text : ''
  if (ts.isPropertyAccessExpression(node)) return node.name.text
  return ts.isElementAccessExpression(node) && ts.isStringLiteral(node.argumentExpression)
    ? node.argumentExpression.text
    : ''
}

function namesOf(node: ts.Node): string[] {
  if (!ts.isObjectLiteralExpression(node)) return []
  return node.properties.map(({ name }) => (name === undefined ? '' : name.getText().replace(/['"]/g, '')))
}

t.test('no other file of the panel sets an address, markup or code', async t => {
  const files = readdirSync(sources, { recursive: true, encoding: 'utf8' }).filter(path => path.endsWith('.ts'))
  t.ok(files.length > 100)
  for (const path of files.filter(path => !/^dom[/\\](?:address|html)\.ts$/.test(path))) {
    t.strictSame(assignmentsIn(path, readFileSync(join(sources, path), 'utf8')), [], path)
  }
})

t.test('the rule sees each way to set one', async t => {
  for (const text of [
    'link.href = x',
    "element['href'] = x",
    'image.src = x',
    'box.innerHTML = x',
    'location = x',
    'window.location = x',
    'location.href = x',
    'location.assign(x)',
    'location.replace(x)',
    'window.open(x)',
    'document.write(x)',
    "box.insertAdjacentHTML('beforeend', x)",
    "link.setAttribute('href', x)",
    'link.setAttribute(name, x)',
    "box.setAttribute('style', x)",
    "box.setAttribute('onclick', x)",
    "Object.assign(document.createElement('a'), { href: x })",
    "Reflect.set(link, 'href', x)",
    'eval(x)',
    'new Function(x)'
  ]) {
    t.equal(assignmentsIn('x.ts', text).length > 0, true, text)
  }
})
