/* What a command shows while it follows a rollout: a block that is drawn again on a terminal, or lines elsewhere. */
import { countOf } from '../../base/text.js'
import type { RolloutDetail } from '../../model/rollout.js'
import type { Host } from '../host.js'
import { createPaint, type Paint } from '../terminal/colors.js'
import { isScreen } from '../terminal/screen.js'
import { cleanText } from '../terminal/terminal-text.js'
import { widthOf } from '../terminal/width.js'
import { errorLine, rolloutLines, stateWords } from './wave-view.js'

/** Shows a rollout that changes. */
export interface RolloutView {
  show(rollout: RolloutDetail): void
  end(): void
}

const drawEveryMs = 100
const defaultColumns = 80
const defaultRows = 24

/** Returns the view for the standard error of a command. */
export function createRolloutView(host: Pick<Host, 'stderr' | 'env'>): RolloutView {
  const paint = createPaint(host.stderr, host.env)
  return isScreen(host.stderr, host.env)
    ? createBlock(host.stderr, paint)
    : createLines(line => void host.stderr.write(cleanText(`${line}\n`)), paint)
}

/** Draws the rollout over what it drew before. The end removes the block: the command prints the last state itself. */
function createBlock(stream: Host['stderr'], paint: Paint): RolloutView {
  let drawnLines = 0
  let waiting: NodeJS.Timeout | undefined
  let last: RolloutDetail | null = null
  let drawnAtMs = 0

  function erase(): void {
    if (drawnLines > 0) stream.write(`\x1b[${drawnLines}A\r\x1b[J`)
    drawnLines = 0
  }

  function draw(): void {
    waiting = undefined
    if (last === null) return
    drawnAtMs = Date.now()
    const columns = stream.columns ?? defaultColumns
    const room = Math.max(3, (stream.rows ?? defaultRows) - 2)
    const all = rolloutLines(last, { paint, nowMs: Date.now() })
    const lines =
      all.length <= room
        ? all
        : [...all.slice(0, room - 1), paint.dim(`and ${countOf(all.length - room + 1, 'line')} more`)]
    erase()
    stream.write(cleanText(`${lines.join('\n')}\n`))
    // A line that wraps takes several rows.
    drawnLines = lines.reduce((sum, line) => sum + Math.max(1, Math.ceil(widthOf(line) / columns)), 0)
  }

  return {
    show(rollout) {
      last = rollout
      waiting ??= setTimeout(draw, Math.max(0, drawnAtMs + drawEveryMs - Date.now()))
    },
    end() {
      clearTimeout(waiting)
      erase()
    }
  }
}

/** Prints a line when the rollout changes its state or begins a wave, and one for each node that fails. */
function createLines(print: (line: string) => void, paint: Paint): RolloutView {
  let shown = ''
  const failed = new Set<string>()
  return {
    show(rollout) {
      const { state, wave } = rollout
      for (const node of rollout.nodes) {
        const key = `${node.nodeId} ${node.attempt}`
        if ((node.phase !== 'failed' && node.phase !== 'stuck') || failed.has(key)) continue
        failed.add(key)
        print(errorLine(node, paint))
      }
      if (shown === `${state} ${wave}`) return
      shown = `${state} ${wave}`
      print(`${rollout.id}: ${stateWords(rollout, Date.now())}`)
    },
    end() {}
  }
}
