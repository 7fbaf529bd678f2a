import type { OutputLine } from '../../lib/model/deployment.js'
import { parseAnsi, plainStyle } from './ansi.js'
import type { Color, Span, TextStyle } from './ansi.js'
import { clockWords, exactWords } from './words.js'

/** A line of output as a node: its time where that is wanted, and its text in its colours. */
export function lineNode(line: OutputLine, { style, hasTime }: { style: TextStyle; hasTime: boolean }): HTMLElement {
  const node = document.createElement('div')
  node.className = 'line'
  if (hasTime && line.at !== '') {
    const time = document.createElement('time')
    time.textContent = clockWords(line.at)
    time.title = exactWords(line.at)
    node.append(time)
  }
  const text = document.createElement('span')
  text.append(...parseAnsi(line.text, style).spans.map(spanNode))
  node.append(text)
  return node
}

/** Text of one look. Colours are set on the node itself: the policy allows that, where it forbids an attribute. */
function spanNode({ text, style }: Span): Node {
  if (style === plainStyle) return new Text(text)
  const node = document.createElement('span')
  node.textContent = text
  const kinds = {
    bold: style.isBold,
    dim: style.isDim,
    italic: style.isItalic,
    underline: style.isUnderlined,
    struck: style.isStruck
  }
  for (const [name, isOn] of Object.entries(kinds)) node.classList.toggle(name, isOn)
  const foreground = cssColor(style.foreground)
  const background = cssColor(style.background)
  node.style.color = style.isInverse ? background || 'var(--log-ground)' : foreground
  node.style.backgroundColor = style.isInverse ? foreground || 'var(--log-text)' : background
  return node
}

function cssColor(color: Color): string {
  if (color === null) return ''
  return typeof color === 'number' ? `var(--ansi-${color})` : color
}
