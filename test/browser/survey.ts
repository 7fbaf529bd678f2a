import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'

/**
 * What is wrong with the screen as it stands, a line each: controls without a name, ids given twice, pictures without
 * words, text that is hard to read (WCAG 2.2 §1.4.3), what sticks out at the side, not one first heading.
 */
export function survey(page: Page): Promise<string[]> {
  return page.evaluate(`(${surveyScript})()`)
}

/** Runs in the page. Compares computed colours with the composed background behind each text. */
const surveyScript = /* js */ `() => {
  const faults = []
  // Animations are checked in their final state; endless ones are skipped.
  for (const animation of document.getAnimations()) if (animation.effect.getComputedTiming().endTime !== Infinity) animation.finish()
  const describe = element => {
    const words = (element.textContent ?? '').trim().replace(/\\s+/g, ' ').slice(0, 40)
    return '<' + element.localName + (element.className ? '.' + String(element.getAttribute('class')).replaceAll(' ', '.') : '') + '> ' + words
  }
  const isSeen = element => element.checkVisibility({ opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true }) &&
    element.getBoundingClientRect().width > 1 && element.getBoundingClientRect().height > 1
  const dialog = document.querySelector('dialog[open]')
  const scope = dialog ?? document.body

  const nameOf = element => {
    const by = element.getAttribute('aria-labelledby')
    if (by) return by.split(' ').map(id => document.getElementById(id)?.textContent ?? '').join(' ').trim()
    const own = element.getAttribute('aria-label') ?? ''
    if (own.trim() !== '') return own
    const labels = [...(element.labels ?? [])].map(label => label.textContent).join(' ').trim()
    if (labels !== '') return labels
    const inside = (element.textContent ?? '').trim() || [...element.querySelectorAll('img[alt], svg[aria-label]')].map(each => each.getAttribute('alt') ?? each.getAttribute('aria-label')).join('')
    return inside || element.getAttribute('title') || ''
  }
  for (const element of scope.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, [tabindex]:not([tabindex="-1"]), [role=tab], [role=option]')) {
    if (isSeen(element) && nameOf(element).trim() === '') faults.push('no name: ' + describe(element) + ' ' + element.outerHTML.slice(0, 120))
  }
  for (const image of scope.querySelectorAll('img')) if (!image.hasAttribute('alt')) faults.push('no alt: ' + image.src)
  const ids = [...document.querySelectorAll('[id]')].map(element => element.id)
  for (const id of new Set(ids.filter((id, index) => ids.indexOf(id) !== index))) faults.push('id twice: ' + id)
  const first = [...document.querySelectorAll('main h1')].filter(isSeen).length
  if (first !== 1) faults.push(first + ' first headings')
  const wide = document.documentElement.scrollWidth
  if (wide > innerWidth) faults.push('sticks out: ' + wide + ' px of ' + innerWidth)

  const parse = text => {
    const numbers = (text.match(/-?[\\d.]+(e-?\\d+)?%?/g) ?? []).map(Number.parseFloat)
    const isUnit = text.startsWith('color(')
    const [red, green, blue, alpha = 1] = isUnit ? numbers : numbers
    return [red * (isUnit ? 255 : 1), green * (isUnit ? 255 : 1), blue * (isUnit ? 255 : 1), alpha]
  }
  const over = (front, back) => [0, 1, 2].map(at => front[at] * front[3] + back[at] * (1 - front[3])).concat(1)
  const groundOf = element => {
    const layers = []
    for (let at = element; at !== null; at = at.parentElement) {
      const style = getComputedStyle(at)
      if (style.backgroundImage !== 'none') return null
      const colour = parse(style.backgroundColor)
      if (colour[3] > 0) layers.push(colour)
      if (colour[3] === 1) break
    }
    return layers.reverse().reduce((back, front) => over(front, back), [255, 255, 255, 1])
  }
  const luminance = colour => {
    const [red, green, blue] = colour.slice(0, 3).map(value => {
      const part = value / 255
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
  }
  const texts = document.createTreeWalker(scope, NodeFilter.SHOW_TEXT)
  const judged = new Set()
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement
    if (texts.currentNode.data.trim() === '' || judged.has(element) || !isSeen(element)) continue
    judged.add(element)
    if (element.closest('svg, option, noscript, :disabled, [aria-disabled=true], .unseen') !== null) continue
    const ground = groundOf(element)
    if (ground === null) continue
    let opacity = 1
    for (let at = element; at !== null; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity)
    const style = getComputedStyle(element)
    const colour = parse(style.color)
    const [high, low] = [luminance(over([...colour.slice(0, 3), colour[3] * opacity], ground)), luminance(ground)].sort((a, b) => b - a)
    const size = Number.parseFloat(style.fontSize)
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5
    const ratio = (high + 0.05) / (low + 0.05)
    if (ratio < least - 0.01) faults.push('contrast ' + ratio.toFixed(2) + ': ' + describe(element))
  }
  return faults
}`

/**
 * What is wrong with how the screen is laid out, a line each: a page that scrolls to the side, text beyond the window
 * that nothing scrolls to, and words of two elements without a space between them.
 */
export function layoutFaults(page: Page): Promise<string[]> {
  return page.evaluate(`(${layoutScript})()`)
}

/** Runs in the page. Compares texts by their position, so that gaps of a flex box count as spaces. */
const layoutScript = /* js */ `() => {
  const faults = []
  const wide = document.documentElement.scrollWidth
  if (wide > innerWidth) faults.push('sticks out: ' + wide + ' px of ' + innerWidth)
  const scope = document.querySelector('dialog[open]') ?? document.body
  for (const element of wide > innerWidth ? scope.querySelectorAll('*') : []) {
    const isLast = [...element.children].every(child => child.getBoundingClientRect().right <= innerWidth)
    if (isLast && element.getBoundingClientRect().right > innerWidth) faults.push('sticks out: ' + element.outerHTML.slice(0, 80))
  }
  const isLetter = text => /^[\\p{L}\\p{N}]$/u.test(text) && !/^[\\p{Script=Han}]$/u.test(text)
  const rectsOf = (node, from, to) => {
    const range = new Range()
    range.setStart(node, from)
    range.setEnd(node, to)
    return range.getClientRects()
  }
  const isReached = element => {
    for (let at = element; at !== null; at = at.parentElement) {
      const { overflowX, textOverflow } = getComputedStyle(at)
      if (overflowX === 'auto' || overflowX === 'scroll' || textOverflow === 'ellipsis') return true
    }
    return false
  }
  const texts = document.createTreeWalker(scope, NodeFilter.SHOW_TEXT)
  let before = null
  while (texts.nextNode()) {
    const node = texts.currentNode
    const element = node.parentElement
    if (node.data === '' || !element.checkVisibility({ visibilityProperty: true })) continue
    if (element.closest('pre, code, svc-log, svc-code, svc-terminal, svg, .unseen, .skip, option, noscript') !== null) {
      before = null
      continue
    }
    const drawn = [...rectsOf(node, 0, node.length)].filter(rect => rect.width > 0)
    if (drawn.some(rect => rect.right > innerWidth + 1 || rect.left < -1) && !isReached(element)) {
      faults.push('beyond the window: ' + node.data.trim().slice(0, 60) + ' ← ' + element.outerHTML.slice(0, 80))
    }
    if (node.data.trim() === '') {
      if (drawn.length > 0) before = null
      continue
    }
    const first = drawn[0]
    if (before !== null && first !== undefined) {
      const last = before.rect
      const isBeside = Math.abs(first.left - last.right) < 1 && first.top < last.bottom && last.top < first.bottom
      const start = node.data[0]
      const end = before.node.data.at(-1)
      if (isBeside && isLetter(start) && (isLetter(end) || /[.,:;!?)]/.test(end))) {
        faults.push('stuck together: ' + before.node.data.slice(-30) + '|' + node.data.slice(0, 30) + ' ← ' + element.outerHTML.slice(0, 80))
      }
    }
    before = drawn.length === 0 ? null : { node, element, rect: drawn.at(-1) }
  }
  return faults
}`

/**
 * What the keyboard reaches, pressing Tab from the beginning of the page until it leaves it: a line for each stop that
 * cannot be seen. `most`: presses.
 */
export async function surveyFocus(page: Page, most: number): Promise<string[]> {
  const faults: string[] = []
  await page.evaluate('document.activeElement?.blur()')
  for (let press = 0; press < most; press++) {
    await page.keyboard.press('Tab')
    const stop: { isEnd: boolean; fault: string | null } = await page.evaluate(`(() => {
      const element = document.activeElement
      if (element === null || element === document.body) return { isEnd: true, fault: null }
      const box = element.getBoundingClientRect()
      const style = getComputedStyle(element)
      const words = element.outerHTML.slice(0, 120)
      if (box.width < 1 || box.height < 1) return { isEnd: false, fault: 'focus on nothing: ' + words }
      const isMarked = style.outlineStyle !== 'none' && Number.parseFloat(style.outlineWidth) > 0
      return { isEnd: false, fault: isMarked ? null : 'focus without a mark: ' + words }
    })()`)
    if (stop.isEnd) break
    if (stop.fault !== null) faults.push(stop.fault)
  }
  return [...new Set(faults)]
}

/**
 * Words in Latin letters where the panel should speak Chinese. Code, logs, what users named (`names`) and sentences of
 * the server, which are marked as not to be translated, are passed over.
 */
export function latinWords(page: Page, names: readonly string[]): Promise<string[]> {
  return page.evaluate(`((names) => {
    const found = new Set()
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    while (texts.nextNode()) {
      const element = texts.currentNode.parentElement
      if (!element.checkVisibility() || element.closest('code, pre, kbd, option, time, .mono, svc-log, svc-code, svc-terminal, noscript, [translate=no]')) continue
      let text = texts.currentNode.data
      // Commands in quotation marks, paths, addresses and names of settings are the same in every language.
      text = text.replace(/“[^”]*”|\\S*[\\/_.@]\\S*/g, ' ')
      for (const name of names) text = text.replaceAll(name, '')
      const words = (text.match(/[A-Za-z][A-Za-z'’]{2,}(?:[ ][a-z]+)*/g) ?? []).filter(word => !/^[A-Z0-9]+$/.test(word))
      for (const word of words) found.add(word + ' ← ' + element.outerHTML.slice(0, 80))
    }
    return [...found]
  })(${JSON.stringify(names)})`)
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface Violation {
  id: string
  nodes: Array<{ html: string; target: string[]; failureSummary: string }>
}

/** What axe-core finds on the screen as it stands, a line each: the rule, where, and why. */
export async function violations(page: Page): Promise<string[]> {
  if (!(await page.evaluate(`'axe' in window`))) await page.evaluate(axe)
  const found: Violation[] = await page.evaluate(`(async () => {
    for (const animation of document.getAnimations()) if (animation.effect.getComputedTiming().endTime !== Infinity) animation.finish()
    const options = { resultTypes: ['violations'], preload: false, rules: { 'target-size': { enabled: true } } }
    return (await axe.run(document, options)).violations
  })()`)
  return found.flatMap(({ id, nodes }) =>
    nodes
      .slice(0, 5)
      .map(
        ({ html, target, failureSummary }) =>
          `${id}: ${target.join(' ')}: ${html.slice(0, 150)}: ${failureSummary.replaceAll(/\s+/g, ' ').slice(0, 240)}`
      )
  )
}
