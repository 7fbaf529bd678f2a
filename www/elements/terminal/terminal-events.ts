/* The events of a terminal. */

/** Bytes for the program: keys, pasted text, mouse reports, answers. */
export class TerminalInputEvent extends Event {
  constructor(readonly bytes: string) {
    super('terminalinput', { bubbles: true })
  }
}

/** The size of the screen has changed, or is known for the first time. */
export class TerminalSizeEvent extends Event {
  constructor(
    readonly columns: number,
    readonly rows: number
  ) {
    super('terminalsize', { bubbles: true })
  }
}

/** The program has set the title of its window. Empty removes it. */
export class TerminalTitleEvent extends Event {
  constructor(readonly terminalTitle: string) {
    super('terminaltitle', { bubbles: true })
  }
}

/** The program rang the bell. */
export class TerminalBellEvent extends Event {
  constructor() {
    super('terminalbell', { bubbles: true })
  }
}

/** The reader leaves the terminal with Ctrl-F6, because the terminal also takes the Tab key. */
export class TerminalLeaveEvent extends Event {
  constructor() {
    super('terminalleave', { bubbles: true })
  }
}

declare global {
  interface HTMLElementEventMap {
    terminalinput: TerminalInputEvent
    terminalsize: TerminalSizeEvent
    terminaltitle: TerminalTitleEvent
    terminalbell: TerminalBellEvent
    terminalleave: TerminalLeaveEvent
  }
}
