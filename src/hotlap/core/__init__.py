"""What all features share: the grammar of everything kept, and both arms that stand on it, the measuring one and the reading one."""
